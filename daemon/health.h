/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * health.h - is what we put into the kernel still there, and does it see packets? Firewall reloads
 * flush our rules, and other tc programs may end the chain before ours.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/counters.h"

struct health;

struct health_ops {
	/* All counters so far, of COUNTER_COUNT. Returns 0 or -errno. */
	int (*counters)(void *user, uint64_t *counters);
	/*
	 * Some nft ruleset changed: put back our rules if they are gone. Returns 1 when they were,
	 * 0 when not, or -errno.
	 */
	int (*restore_rules)(void *user);
};

/*
 * WATCH_RULES: there are rules of ours. WATCH_EGRESS: a program of ours must see SYNs leave.
 * Returns 0 or -errno.
 */
int health_start(struct health **ret, sd_event *event, bool watch_rules, bool watch_egress,
		 const struct health_ops *ops, void *user);
void health_free(struct health *h);

/* SYNs are queued and decided, but the egress program does not see them leave. */
bool health_egress_is_blind(const struct health *h);
