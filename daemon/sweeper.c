// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "sweeper.h"
#include "base/util.h"

#define INTERVAL_US 250000
/* Records for each interval: a round through a million of them takes half a minute. */
#define SLICE 8192
/* Questions to conntrack for each slice; one takes some 10 us. */
#define QUESTIONS 256
/* Questions for each interval of a resync: more, because each walks through all records. */
#define RESYNC_QUESTIONS 4096
/* A Linux server keeps TIME_WAIT for 60 seconds. */
#define PRESSED_HOLD_MS 65000

struct sweeper {
	struct sweeper_config cfg;
	sd_event_source *timer;
	unsigned int questions; /* left in this slice */
	bool resync;
	/*
	 * How many records conntrack had no answer for in this resync. Every round begins at the
	 * first record, so it meets them first, and passes them by without asking again.
	 */
	uint32_t unanswered;
	uint32_t passed; /* how many of those this round has passed by */
	int error;	 /* the result of the last sweep: an error is logged once */
};

/* When the questions of this slice are used up, say yes: the record stays until the next round. */
static int conntrack_knows_it(void *user, const struct tuple *t)
{
	struct sweeper *s = user;

	if (!s->questions)
		return 1;
	s->questions--;
	return conntrack_knows(s->cfg.conntrack, t);
}

/*
 * When the table is nearly full, records of closed connections are kept only for as long as a Linux
 * server keeps TIME_WAIT. Records of open connections are not affected.
 */
static uint32_t effective_hold(struct sweeper *s)
{
	uint64_t counters[COUNTER_COUNT] = { 0 };
	uint64_t records;

	if (s->cfg.hold_ms <= PRESSED_HOLD_MS ||
	    s->cfg.ops->counters(s->cfg.datapath, counters) < 0)
		return s->cfg.hold_ms;
	records = counters[COUNTER_RECORDS_CREATED] - counters[COUNTER_RECORDS_REMOVED];
	return records > (uint64_t)s->cfg.limit * 3 / 4 ? PRESSED_HOLD_MS : s->cfg.hold_ms;
}

/*
 * Ask conntrack for the mapping of an open connection whose record has none. Each connection is
 * asked for once in a resync: a mapping that conntrack does not know now it will not know later.
 * Returns 1, which ends the round, when no questions are left.
 */
static int ask_mapping(void *user, const struct tuple *t, const struct record *r)
{
	static const struct inside unknown;
	struct sweeper *s = user;
	struct inside inside;

	if (!record_is_open(r) || memcmp(&r->inside, &unknown, sizeof(unknown)) != 0)
		return 0;
	if (s->passed < s->unanswered) {
		s->passed++;
		return 0;
	}
	if (!s->questions)
		return 1;
	s->questions--;
	memset(&inside, 0, sizeof(inside));
	if (conntrack_lookup(s->cfg.conntrack, t, &inside) == 1 &&
	    s->cfg.ops->set_inside(s->cfg.datapath, t, &inside) == 0)
		return 0;
	s->unanswered++;
	s->passed++;
	return 0;
}

static void resync_mappings(struct sweeper *s)
{
	s->questions = RESYNC_QUESTIONS;
	s->passed = 0;
	s->resync = s->cfg.ops->each(s->cfg.datapath, ask_mapping, s) == 1;
}

static int on_timer(sd_event_source *timer, uint64_t usec, void *user)
{
	struct sweeper *s = user;
	struct datapath_sweep done;
	int r;

	(void)usec;
	s->questions = QUESTIONS;
	r = s->cfg.ops->sweep(s->cfg.datapath, effective_hold(s), SLICE,
			      s->cfg.conntrack ? conntrack_knows_it : NULL, s, &done);
	if (r < 0 && r != s->error)
		log_warn("expired records cannot be removed: %s", strerror(-r));
	s->error = r;
	if (s->resync && s->cfg.conntrack)
		resync_mappings(s);
	sd_event_source_set_time_relative(timer, INTERVAL_US);
	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

int sweeper_start(struct sweeper **ret, sd_event *event, const struct sweeper_config *cfg)
{
	struct sweeper *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->cfg = *cfg;
	r = sd_event_add_time_relative(event, &s->timer, CLOCK_BOOTTIME, INTERVAL_US, 0, on_timer,
				       s);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void sweeper_free(struct sweeper *s)
{
	if (!s)
		return;
	sd_event_source_disable_unref(s->timer);
	free(s);
}

void sweeper_set_hold(struct sweeper *s, uint32_t hold_ms)
{
	s->cfg.hold_ms = hold_ms;
}

void sweeper_resync_mappings(struct sweeper *s)
{
	s->resync = true;
	s->unanswered = 0;
}
