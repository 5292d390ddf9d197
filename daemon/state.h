/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * state.h - records, destinations and the clock, as a file that survives a reboot.
 *
 * The file is needed only where the live table is gone; while that is there it is the truth. Times
 * in it count back from the moment of saving, so no wall clock can make a record older or younger.
 */
#pragma once

#include <stdint.h>

#include "core/tsclock.h"
#include "core/datapath.h"

/* How far things may have moved on since the last save: one interval, and what a busy disk adds. */
#define STATE_SLACK_MS 30000

/*
 * The 128-bit secret of the clocks, from the file "secret" in DIR (mode 0600), made if it is not
 * there. 0 or -errno.
 */
int state_secret(const char *dir, struct siphash_key *ret);

/*
 * Write everything that the datapath knows to the file "state" in DIR: temporary file, fsync,
 * rename, fsync of DIR. INTERVAL_MS is when it will be written next: what is restored is put that
 * far ahead. May run in a thread of its own.
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
 * Restore what was saved into the datapath's empty table. A file that is damaged or cannot be read
 * is set aside, and its temporary used if that is whole.
 *
 * Returns 0; -ENOENT when there is no usable file, or -errno when there is only a temporary that
 * cannot be read. RET is valid in any case.
 */
int state_load(const char *dir, const struct datapath_ops *ops, struct datapath *dp,
	       uint64_t now_ms, struct state_loaded *ret);
