/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sweeper.h - removes records that nobody needs any more, slice by slice in the main loop, off the
 * packets' path.
 */
#pragma once

#include <stdint.h>
#include <systemd/sd-event.h>

#include "net/conntrack.h"
#include "core/datapath.h"

struct sweeper;

/*
 * CT, which may be NULL, is asked about shifted connections that fell silent: such a record goes
 * only when conntrack does not know the connection any more. LIMIT is the table's bound: when the
 * table is nearly full, records of closed connections go sooner.
 */
int sweeper_start(struct sweeper **ret, sd_event *event, const struct datapath_ops *ops,
		  struct datapath *dp, struct conntrack *ct, uint32_t limit, uint32_t hold_ms);
void sweeper_free(struct sweeper *s);
void sweeper_set_hold(struct sweeper *s, uint32_t hold_ms);

/* Mappings were missed: ask conntrack for those that records lack, over the coming slices. */
void sweeper_resync_mappings(struct sweeper *s);
