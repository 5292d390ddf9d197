// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "sweeper.h"
#include "base/util.h"

#define INTERVAL_US 250000
#define SLICE 8192    /* records: a table of a million takes half a minute for a round */
#define QUESTIONS 256 /* to conntrack per slice; some 10 us each */
#define RESYNC_QUESTIONS \
	4096 /* after a loss, about mappings: each round walks through the whole table */
#define PRESSED_HOLD_MS 65000 /* a server's TIME_WAIT on Linux, and a little */

struct sweeper {
	const struct datapath_ops *ops;
	struct datapath *dp;
	struct conntrack *ct;
	sd_event_source *timer;
	uint32_t limit, hold_ms;
	unsigned int questions; /* left in this slice */
	bool resync;
	/*
	 * of this resync: the records that conntrack could not tell of, which come first in the
	 * next round
	 */
	uint32_t unanswered;
	uint32_t passed; /* of those, in this round */
	int error;	 /* what was logged last */
};

/* Not asked is not dead: the record stays for the next round. */
static int conntrack_knows_it(void *user, const struct tuple *t)
{
	struct sweeper *s = user;

	if (!s->questions)
		return 1;
	s->questions--;
	return conntrack_knows(s->ct, t);
}

/*
 * Nearly full, the table keeps closed connections no longer than servers on Linux do; what lives is
 * not touched.
 */
static uint32_t effective_hold(struct sweeper *s)
{
	uint64_t counters[COUNTER_COUNT] = { 0 };
	uint64_t records;

	if (s->hold_ms <= PRESSED_HOLD_MS || s->ops->counters(s->dp, counters) < 0)
		return s->hold_ms;
	records = counters[COUNTER_RECORDS_CREATED] - counters[COUNTER_RECORDS_REMOVED];
	return records > (uint64_t)s->limit * 3 / 4 ? PRESSED_HOLD_MS : s->hold_ms;
}

/*
 * Ask about one connection more; conntrack is asked but once, as what it cannot say now it will not
 * say later.
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
	if (conntrack_lookup(s->ct, t, &inside) == 1 && s->ops->set_inside(s->dp, t, &inside) == 0)
		return 0;
	s->unanswered++;
	s->passed++;
	return 0;
}

static void resync_mappings(struct sweeper *s)
{
	s->questions = RESYNC_QUESTIONS;
	s->passed = 0;
	s->resync = s->ops->each(s->dp, ask_mapping, s) == 1;
}

static int on_timer(sd_event_source *timer, uint64_t usec, void *user)
{
	struct sweeper *s = user;
	struct datapath_sweep done;
	int r;

	(void)usec;
	s->questions = QUESTIONS;
	r = s->ops->sweep(s->dp, effective_hold(s), SLICE, s->ct ? conntrack_knows_it : NULL, s,
			  &done);
	if (r < 0 && r != s->error)
		log_warn("cannot sweep the records: %s", strerror(-r));
	s->error = r;
	if (s->resync && s->ct)
		resync_mappings(s);
	sd_event_source_set_time_relative(timer, INTERVAL_US);
	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

int sweeper_start(struct sweeper **ret, sd_event *event, const struct datapath_ops *ops,
		  struct datapath *dp, struct conntrack *ct, uint32_t limit, uint32_t hold_ms)
{
	struct sweeper *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct sweeper){ .ops = ops, .dp = dp, .ct = ct, .limit = limit, .hold_ms = hold_ms };
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
	s->hold_ms = hold_ms;
}

void sweeper_resync_mappings(struct sweeper *s)
{
	s->resync = true;
	s->unanswered = 0;
}
