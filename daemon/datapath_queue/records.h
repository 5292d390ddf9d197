/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * records.h - the record table of the queue datapath: records, destinations and counters in one
 * shared mapping of a file, so that they outlive the process however it ends.
 *
 * One process uses the file at a time (the daemon's lock sees to it), any number of its threads.
 * Locks and the hash index are that process's own and made anew when the file is opened, so a
 * holder that is killed leaves nothing locked. A record that is replaced goes through a journal:
 * killed half way, the next process finds the old one or the new one.
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
	uint32_t records; /* bound of the table; a live file keeps the one that it was made with */
	uint32_t destinations; /* the least recently used gives way to a new one */
	uint8_t boot_id[16];   /* stamps of another boot mean nothing */
	uint64_t random[2];    /* for the hash, when the file is made anew */
};

/*
 * Open the file PATH, or make it anew. Space in it is taken as records come.
 *
 * Returns 1 when it is a live one of this boot; 0 when it was made anew because there was none or
 * it is of another boot; -EBADMSG when it was made anew because it was damaged or no such file: RET
 * is valid then, too. Any other -errno is a failure.
 */
int records_open(struct records **ret, const char *path, const struct records_config *cfg);
void records_close(struct records *t);
uint32_t records_limit(const struct records *t);

/* Kept in the file for the next process; all zero in a new one. */
struct tsclock *records_clock(struct records *t);
/* COUNTER_COUNT of them, changed with records_count() alone. */
void records_count(struct records *t, enum counter which, uint64_t n);
uint64_t records_counter(const struct records *t, enum counter which);

/* A tuple's record, locked. */
struct records_ref {
	struct records *table;
	uint32_t bucket, slot;
	struct record *record; /* NULL: there is none. Its words may be written, one at a time */
};

/* Lock the tuple and look for its record; records_unlock() must follow. */
void records_lock(struct records *t, const struct tuple *key, struct records_ref *ret);
void records_unlock(struct records_ref *ref);
/*
 * Make the record that is not there. Returns 0, or -ENOSPC when the table is full or the file
 * system is.
 */
int records_insert(struct records_ref *ref, const struct tuple *key, const struct record *r);
/* Write all of the record at once, for whoever comes after a SIGKILL. */
void records_replace(struct records_ref *ref, const struct record *r);
void records_delete(struct records_ref *ref);

/*
 * When the decision that claimed the record got its verdict: nanoseconds of the boot clock,
 * RECORDS_PENDING before. It says nothing after a restart, so then it is 0. To set it, no lock is
 * needed: SLOT is a ref's.
 */
#define RECORDS_PENDING UINT64_MAX
uint64_t records_decided_ns(const struct records_ref *ref);
void records_set_decided_ns(struct records *t, uint32_t slot, uint64_t ns);

struct records_item {
	struct tuple tuple;
	struct record record;
};

/*
 * Copy the next records, as many as fit into ITEMS. *CURSOR is 0 to begin, and 0 again when the
 * round is complete. Returns how many.
 */
uint32_t records_read(struct records *t, uint32_t *cursor, struct records_item *items,
		      uint32_t max);

/*
 * A destination, locked, made first if it is new and MAKE is true. May return NULL.
 * records_destination_unlock() must follow either way.
 */
struct destination *records_destination_lock(struct records *t, const struct destination_key *k,
					     bool make);
void records_destination_unlock(struct records *t);

/*
 * The destination in slot I, I from 0 on. Returns 1, 0 when the slot is empty, -ENOENT beyond the
 * last.
 */
int records_destination_at(struct records *t, uint32_t i, struct destination_key *ret_key,
			   struct destination *ret);
