/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * records.h - the record table of the datapath without BPF: records, destinations and counters in
 * one shared mapping of a file, so that they outlive the process however it ends.
 *
 * One process at a time uses the file, with any number of threads; the daemon's lock sees to that.
 * Its locks and the hash index are made anew when the file is opened, so a process that is killed
 * leaves nothing locked. A record is replaced through a journal: if the process is killed half way,
 * the next one finds the old record or the new one, whole.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/counters.h"
#include "core/record.h"
#include "core/tsclock.h"
#include "core/wire.h"

struct records;

struct records_config {
	uint32_t records;      /* bound of the table; an existing file keeps its own */
	uint32_t destinations; /* bound; the least recently used one gives way to a new one */
	uint8_t boot_id[16];   /* stamps of another boot are of another clock */
	uint64_t random[2];    /* key of the hash, when the file is made anew */
};

/*
 * Open the file PATH, or make it anew. Space in it is taken as records come.
 *
 * Returns 1 when the file is of this boot; 0 when it was made anew because there was none, or one
 * of another boot; -EBADMSG when it was made anew because it was damaged or no such file: RET is
 * valid then, too. Any other -errno is a failure.
 */
int records_open(struct records **ret, const char *path, const struct records_config *cfg);
void records_close(struct records *t);
uint32_t records_limit(const struct records *t);

/* The clock, kept in the file for the next process; all zero in a new file. */
struct tsclock *records_clock(struct records *t);
/* The counters, kept in the file. Add N to one. */
void records_count(struct records *t, enum counter which, uint64_t n);
uint64_t records_counter(const struct records *t, enum counter which);

/* A tuple's record, locked. */
struct records_ref {
	struct records *records;
	uint32_t bucket, slot;
	struct record *record; /* NULL: there is none. Words may be written one at a time */
};

/* Lock the tuple and look for its record; records_unlock() must follow. */
void records_lock(struct records *t, const struct tuple *key, struct records_ref *ret);
void records_unlock(struct records_ref *ref);
/*
 * Make the record of a tuple that has none. Returns 0, or -ENOSPC when the table or the file system
 * is full.
 */
int records_insert(struct records_ref *ref, const struct tuple *key, const struct record *r);
/* Replace the whole record at once, even if the process is killed meanwhile. */
void records_replace(struct records_ref *ref, const struct record *r);
void records_delete(struct records_ref *ref);

/*
 * When the verdict on the SYN that claimed the record was sent: nanoseconds of the boot clock,
 * RECORDS_PENDING before, 0 after a restart. It may be set without lock; SLOT is a ref's.
 */
#define RECORDS_PENDING UINT64_MAX
uint64_t records_decided_ns(const struct records_ref *ref);
void records_set_decided_ns(struct records *t, uint32_t slot, uint64_t ns);

struct records_item {
	struct tuple tuple;
	struct record record;
};

/*
 * Copy the next records, up to MAX, into ITEMS. *CURSOR is 0 to begin, and 0 again when the round
 * is complete. Returns the number of records copied.
 */
uint32_t records_read(struct records *t, uint32_t *cursor, struct records_item *items,
		      uint32_t max);

/*
 * Lock the destinations and look for one, or make it if MAKE is true. Returns NULL when there is
 * none. records_destination_unlock() must follow either way.
 */
struct destination *records_destination_lock(struct records *t, const struct destination_key *k,
					     bool make);
void records_destination_unlock(struct records *t);

/*
 * Copy the destination in slot I, counted from 0. Returns 1, 0 when the slot is empty, -ENOENT
 * beyond the last one.
 */
int records_destination_at(struct records *t, uint32_t i, struct destination_key *ret_key,
			   struct destination *ret);
