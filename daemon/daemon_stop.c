// SPDX-License-Identifier: GPL-2.0-or-later
/* daemon_stop.c - ends the parts of a daemon that were started, in reverse. */
#include <systemd/sd-daemon.h>

#include "daemon.h"
#include "base/log.h"
#include "base/util.h"

bool daemon_must_keep_rules(uint64_t shifted)
{
	if (!shifted)
		return false;
	log_notice("%llu shifted connections wait for the next start; --cleanup gives them up",
		   (unsigned long long)shifted);
	return true;
}

static uint64_t open_shifts(const struct daemon *d)
{
	uint64_t n[COUNTER_COUNT] = { 0 };

	if (!d->ops || !d->ops->queues_segments || d->ops->counters(d->datapath, n) < 0)
		return 0;
	return datapath_open_shifts(n);
}

static void remove_rules(struct daemon *d)
{
	if (d->rules && !daemon_must_keep_rules(open_shifts(d)) && rules_remove(d->rules) < 0)
		log_warn("the nft rules could not be removed");
}

static void stop_handling(struct daemon *d)
{
	if (d->keeps) {
		daemon_stop_workers(d);
	} else {
		/*
		 * Deleting a base chain drops all queued packets. So first stop queueing SYNs, then
		 * let the workers send verdicts on those that wait, then remove the chains.
		 */
		if (d->rules)
			rules_pause(d->rules);
		daemon_stop_workers(d);
		remove_rules(d);
	}
	rules_free(d->rules);
	/* BPF programs stay for open connections, but must not decide on new ones. */
	if (d->datapath)
		daemon_apply_policy(d, false);
}

void daemon_stop(struct daemon *d)
{
	sd_notify(0, "STOPPING=1");
	gateway_free(d->gateway);
	health_free(d->health);
	d->health = NULL;
	if (!d->keeps)
		stop_handling(d);
	sweeper_free(d->sweeper);
	d->sweeper = NULL;
	sd_event_source_unref(d->mappings_event);
	conntrack_free(d->conntrack);
	saver_stop(d->saver);
	/* Stop as late as possible: SYNs queued from here on wait for the next daemon. */
	if (d->keeps)
		stop_handling(d);
	if (d->ops)
		d->ops->close(d->datapath);
	sd_event_source_unref(d->links_event);
	sd_event_source_unref(d->links_timer);
	sd_event_source_unref(d->watchdog_timer);
	close_fd(&d->links_fd);
	sd_event_unref(d->event);
	close_fd(&d->lock_fd);
}
