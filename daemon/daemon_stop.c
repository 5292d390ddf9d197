// SPDX-License-Identifier: GPL-2.0-or-later
/* daemon_stop.c - tear a daemon down, in reverse, whatever of it was started. */
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
		 * first no new SYN is queued, then those that wait get their verdicts; only then
		 * the base chains may go
		 */
		if (d->rules)
			rules_pause(d->rules);
		daemon_stop_workers(d);
		remove_rules(d);
	}
	rules_free(d->rules);
	/* the filters stay for live connections; new ones are none of their business from now on */
	if (d->datapath)
		daemon_apply_policy(d, false);
}

void daemon_stop(struct daemon *d)
{
	sd_notify(0, "STOPPING=1");
	gateway_free(d->gateway);
	health_free(d->health);
	d->health = NULL;
	/* what waits from here on waits for the next start: late, so that it is not long */
	if (!d->keeps)
		stop_handling(d);
	sweeper_free(d->sweeper);
	d->sweeper = NULL;
	sd_event_source_unref(d->mappings_event);
	conntrack_free(d->conntrack);
	saver_stop(d->saver);
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
