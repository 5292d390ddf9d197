// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * daemon_events.c - events of the main loop: changed interfaces, new connections in conntrack, the
 * watchdog's timer.
 */
#include <errno.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "daemon.h"
#include "net/links.h"
#include "base/log.h"
#include "base/util.h"

#define LINKS_SETTLE_US 20000 /* a new interface causes a burst of events */
#define MAPPINGS_US 10000     /* from one read of conntrack's events to the next */

static void wait_for_links_to_settle(struct daemon *d)
{
	sd_event_source_set_time_relative(d->links_timer, LINKS_SETTLE_US);
	sd_event_source_set_enabled(d->links_timer, SD_EVENT_ONESHOT);
}

static int on_links_settled(sd_event_source *s, uint64_t usec, void *user)
{
	struct daemon *d = user;
	const char *link, *error;
	int r = attachments_update(&d->attachments, &d->cfg, &link, &error);

	(void)s;
	(void)usec;
	if (r == -EINTR) /* interfaces changed while they were read */
		wait_for_links_to_settle(d);
	else if (r < 0)
		log_err("%s: %s (%s)", link, error, strerror(-r));
	return 0;
}

static int on_links(sd_event_source *s, int fd, uint32_t revents, void *user)
{
	struct daemon *d = user;
	int r = links_changed(fd);

	(void)s;
	(void)revents;
	if (r < 0) {
		log_err("interface events cannot be read: %s", strerror(-r));
		return r;
	}
	if (r > 0)
		wait_for_links_to_settle(d);
	return 0;
}

/*
 * That this is called shows that the main loop runs. When a worker hangs, no answer is sent, so
 * that the service manager restarts the daemon.
 */
static int on_watchdog(sd_event_source *s, uint64_t usec, void *user)
{
	struct daemon *d = user;
	uint64_t period_us;

	(void)usec;
	if (!daemon_workers_are_alive(d)) {
		log_err("a queue's thread hangs: the watchdog gets no answer, and will end tsnatd");
		return 0;
	}
	sd_notify(0, "WATCHDOG=1");
	if (sd_watchdog_enabled(0, &period_us) <= 0)
		return 0;
	sd_event_source_set_time_relative(s, period_us / 3);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int watch_links(struct daemon *d)
{
	int r;

	d->links_fd = links_watch();
	if (d->links_fd < 0)
		return d->links_fd;
	r = sd_event_add_io(d->event, &d->links_event, d->links_fd, EPOLLIN, on_links, d);
	if (r < 0)
		return r;
	return sd_event_add_time_relative(d->event, &d->links_timer, CLOCK_BOOTTIME,
					  LINKS_SETTLE_US, 1000, on_links_settled, d);
}

static int start_watchdog(struct daemon *d)
{
	uint64_t period_us;

	if (sd_watchdog_enabled(0, &period_us) <= 0)
		return 0;
	return sd_event_add_time_relative(d->event, &d->watchdog_timer, CLOCK_BOOTTIME, 0, 0,
					  on_watchdog, d);
}

static int add_events(struct daemon *d)
{
	int r = watch_links(d);

	if (r < 0)
		return r;
	return start_watchdog(d);
}

int daemon_add_events(struct daemon *d)
{
	int r = add_events(d);

	if (r < 0)
		log_err("events cannot be added to the main loop: %s", strerror(-r));
	return r;
}

static void on_mapping(void *user, const struct tuple *t, const struct inside *inside)
{
	struct daemon *d = user;

	/*
	 * An error means that there is no record: the SYN has not left yet, or the table is full.
	 * The next resync may find one.
	 */
	d->ops->set_inside(d->datapath, t, inside);
}

static int on_mappings(sd_event_source *s, int fd, uint32_t revents, void *user)
{
	struct daemon *d = user;
	int r = conntrack_process(d->conntrack);

	(void)s;
	(void)fd;
	(void)revents;
	if (r == 0)
		return 0;
	d->event_overruns++;
	sweeper_resync_mappings(d->sweeper);
	return 0;
}

static int subscribe_to_mappings(struct daemon *d)
{
	int fd = conntrack_subscribe(d->conntrack, on_mapping, d);
	int r;

	if (fd < 0)
		return fd;
	r = sd_event_add_io(d->event, &d->mappings_event, fd, EPOLLIN, on_mappings, d);
	if (r < 0)
		return r;
	/* No connection depends on them: read many at one wake-up. */
	sd_event_source_set_priority(d->mappings_event, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(d->mappings_event, MAPPINGS_US, 1);
	return 0;
}

int daemon_start_mappings(struct daemon *d)
{
	int r;

	if (!d->conntrack || !d->cfg.conntrack_events ||
	    (d->n_workers && queue_worker_has_mapping(d->worker[0])))
		return 0;
	r = subscribe_to_mappings(d);
	if (r < 0)
		log_notice("no conntrack events (%s): inside tuples are not known", strerror(-r));
	return 0;
}
