/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sweeper.h - removes expired records, slice by slice in the main loop, so that no packet waits for
 * it.
 */
#pragma once

#include <stdint.h>
#include <systemd/sd-event.h>

#include "net/conntrack.h"
#include "core/datapath.h"

struct sweeper;

struct sweeper_config {
	const struct datapath_ops *ops;
	struct datapath *datapath;
	/*
	 * Asked about shifted connections that fell silent: their records are removed only when
	 * conntrack has forgotten the connection. NULL: it cannot be asked.
	 */
	struct conntrack *conntrack;
	/* The bound of the table: when it is nearly full, HOLD_MS is shortened. */
	uint32_t limit;
	uint32_t hold_ms;
};

/* Everything that CFG points to must outlive the sweeper. Returns 0 or -errno. */
int sweeper_start(struct sweeper **ret, sd_event *event, const struct sweeper_config *cfg);
/* NULL is allowed. */
void sweeper_free(struct sweeper *s);
/* How long a record outlives its last packet from now on. */
void sweeper_set_hold(struct sweeper *s, uint32_t hold_ms);

/*
 * After events about mappings were lost: ask conntrack for the mappings that records lack, over the
 * coming slices.
 */
void sweeper_resync_mappings(struct sweeper *s);
