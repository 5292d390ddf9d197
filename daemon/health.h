/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health.h - checks that our nft rules are still there and that our egress program sees SYNs. A
 * firewall's reload flushes our rules, and other tc programs may end the chain before ours.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/counters.h"

struct health;

struct health_ops {
	/* Read all COUNTER_COUNT counters. Returns 0 or -errno. */
	int (*counters)(void *user, uint64_t *counters);
	/* Put our rules back if they are gone. Returns 1 when they were, 0 when not, or -errno. */
	int (*restore_rules)(void *user);
};

/*
 * WATCH_RULES: check our nft rules. WATCH_EGRESS: compare the SYNs that were queued with those that
 * our egress program saw. Returns 0 or -errno.
 */
int health_start(struct health **ret, sd_event *event, bool watch_rules, bool watch_egress,
		 const struct health_ops *ops, void *user);
void health_free(struct health *h);

/* SYNs get verdicts, but the egress program does not see them leave. */
bool health_egress_is_blind(const struct health *h);
