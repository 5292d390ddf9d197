/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * records_file.h - the file of the record table, and its mapping: a header, the slots of records,
 * the slots of destinations.
 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#include "records.h"
#include "hash_index.h"

#define RECORDS_STRIPES 256

/* The whole record, while it is being replaced. Each stripe of locks has a journal. */
struct journal {
	uint32_t valid;
	uint32_t slot;
	struct record record;
};

/* The part of the header that never changes, and tells that the file is ours. */
struct identity {
	char magic[8];
	uint32_t version;
	uint32_t header_size, record_size, destination_size; /* sizes in bytes */
	uint32_t records, destinations;			     /* number of slots */
	uint8_t boot_id[16];
	struct siphash_key hash_key;
};

struct header {
	struct identity id;
	uint64_t check; /* over the identity */
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
	/* rises with every use, and gives the list its order when the file is opened again */
	uint32_t used_at;
	struct destination_key key;
	struct destination destination;
};
static_assert(offsetof(struct record_slot, tuple) == offsetof(struct hash_slot, key),
	      "the key follows");
static_assert(offsetof(struct destination_slot, key) == offsetof(struct hash_slot, key),
	      "the key follows");

struct records_file {
	int fd; /* -1 when none is open */
	struct header *header;
	size_t size; /* bytes of the mapping */
};

/*
 * Map the file PATH. Returns 1; 0 when there is none, or one of another boot; -EBADMSG when it is
 * damaged or not ours; another -errno when it cannot be opened. records_file_close() must follow in
 * each case.
 */
int records_file_open(struct records_file *f, const char *path, const uint8_t boot_id[16]);

/*
 * Make an empty file beside PATH, map it, and put it in the place of PATH. So PATH is a whole file
 * or none, at any time. Returns 0 or -errno.
 */
int records_file_make(struct records_file *f, const char *path, const struct records_config *cfg);
void records_file_close(struct records_file *f);

struct record_slot *records_file_records(const struct records_file *f);
struct destination_slot *records_file_destinations(const struct records_file *f);

/*
 * Take room in the file system for up to LEN bytes of the mapping from FROM on. A process that
 * touches a mapped byte without room in the file behind it is killed. Returns the number of bytes,
 * 0 when the file system is full.
 */
size_t records_file_back(struct records_file *f, const void *from, size_t len);
