/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - records, destinations and the clock, as a file that survives a reboot.
 *
 * The file is read only when the datapath's own records are gone, as after a reboot. Times in it
 * are relative to the moment of saving, so no wall clock can make a record older or younger.
 */
#pragma once

#include <stdint.h>

#include "core/tsclock.h"
#include "core/datapath.h"

/* A save may be late by this much on a busy disk, on top of its interval. */
#define STATE_SLACK_MS 30000

/*
 * Read the 128-bit secret of the clocks from the file "secret" in DIR, or make the file (mode
 * 0600). Returns 0 or -errno.
 */
int state_secret(const char *dir, struct siphash_key *ret);

/*
 * Write all records and destinations of the datapath to the file "state" in DIR: temporary file,
 * fsync, rename, fsync of DIR. NOW_MS is the boot clock. INTERVAL_MS is the time until the next
 * save: state_load() moves TSvals and the clock forward by it. May run in a thread of its own.
 *
 * Returns 0 or -errno; on failure the old file stays, and the temporary goes.
 */
int state_save(const char *dir, const struct datapath_ops *ops, struct datapath *dp,
	       const struct tsclock *clock, uint64_t now_ms, uint32_t interval_ms);

struct state_loaded {
	uint32_t records, destinations;
	/* the least that the clock's base plus boot time may be */
	uint32_t clock_ms;
	/* why the file could not be used; NULL: it could, or there is none */
	const char *unusable;
	/* with UNUSABLE: 0: the file is "state.bad" now; -errno: the next save will replace it */
	int aside_error;
};

/*
 * Restore the saved records and destinations into the datapath, which has none yet. A file that is
 * damaged or cannot be read is renamed to "state.bad", and the temporary is used if it is whole.
 * NOW_MS is the boot clock.
 *
 * Returns 0; -ENOENT when there is no usable file; or -errno when there is only a temporary that
 * cannot be read. RET is valid in any case.
 */
int state_load(const char *dir, const struct datapath_ops *ops, struct datapath *dp,
	       uint64_t now_ms, struct state_loaded *ret);
