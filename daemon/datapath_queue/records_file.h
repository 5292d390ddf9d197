/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * records_file.h - the file of the record table and its mapping: a header, the slots of records,
 * the slots of destinations.
 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#include "records.h"
#include "table.h"

#define RECORDS_STRIPES 256

/*
 * Where a record stands whole while it is being replaced. A stripe has one, written under its lock.
 */
struct journal {
	uint32_t valid;
	uint32_t slot;
	struct record record;
};

/* What never changes in a file, and tells that it is one of ours. */
struct identity {
	char magic[8];
	uint32_t version;
	uint32_t header_size, record_size, destination_size; /* of the header and of the slots */
	uint32_t records, destinations;			     /* how many slots */
	uint8_t boot_id[16];
	struct siphash_key hash_key;
};

struct header {
	struct identity id;
	uint64_t check; /* of the identity */
	uint32_t records_used_max, destinations_used_max;
	struct tsclock clock;
	uint64_t counters[64];
	struct journal journal[RECORDS_STRIPES];
};
static_assert(COUNTER_COUNT <= 64, "the counters have room");

struct record_slot {
	uint32_t used, reserved;
	struct tuple tuple;
	uint32_t reserved2;
	uint64_t decided_ns;
	struct record record;
};

struct destination_slot {
	uint32_t used;
	/* rises with every use: the order of the list when the file is opened again */
	uint32_t used_at;
	struct destination_key key;
	struct destination destination;
};
static_assert(offsetof(struct record_slot, tuple) == offsetof(struct table_slot, key),
	      "the key follows");
static_assert(offsetof(struct destination_slot, key) == offsetof(struct table_slot, key),
	      "the key follows");

struct records_file {
	int fd; /* -1: none */
	struct header *header;
	size_t size; /* bytes, of the mapping */
};

/*
 * Map the file PATH. Returns 1; 0 when there is none or it is of another boot; -EBADMSG when it is
 * damaged or none of ours; another -errno when it cannot be opened. records_file_close() must
 * follow whatever it returns.
 */
int records_file_open(struct records_file *f, const char *path, const uint8_t boot_id[16]);

/*
 * Make an empty one beside PATH, map it, and put it in PATH's place: PATH is a whole file or none.
 * Returns 0 or -errno.
 */
int records_file_make(struct records_file *f, const char *path, const struct records_config *cfg);
void records_file_close(struct records_file *f);

struct record_slot *records_file_records(const struct records_file *f);
struct destination_slot *records_file_destinations(const struct records_file *f);

/*
 * Take room for at most the LEN bytes of the mapping that begin at FROM, some at a time: a mapping
 * of a file that has no room behind it kills whoever touches it. Returns how many bytes, 0 when the
 * file system is full.
 */
size_t records_file_back(struct records_file *f, const void *from, size_t len);
