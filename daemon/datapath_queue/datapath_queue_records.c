// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_queue_records.c - the records of the datapath without BPF, for the rest of the daemon.
 */
#include <errno.h>

#include "datapath_queue_parts.h"
#include "base/util.h"

#define READ_AT_ONCE 256

/* A sweep under way. */
struct sweep {
	struct datapath *dp;
	uint32_t hold_ms;
	datapath_knows_fn *knows;
	void *user;
};

static bool sweep_remove(const struct sweep *s, const struct records_item *i, uint32_t limit_ms)
{
	struct counting *to = &s->dp->counting;
	struct records_ref ref;
	bool dead;

	records_lock(s->dp->records, &i->tuple, &ref);
	/*
	 * a SYN may have claimed the record since it was read. The clock is read here: by an
	 * earlier time, a stamp written since would seem to be in the future
	 */
	dead = ref.record && ref.record->state == i->record.state &&
	       ms_expired((uint32_t)boot_ms(), ref.record->seen_ms, limit_ms);
	if (dead) {
		connection_end_shift(to, ref.record);
		records_delete(&ref);
		count(to, COUNTER_RECORDS_REMOVED);
	}
	records_unlock(&ref);
	return dead;
}

static bool sweep_one(const struct sweep *s, const struct records_item *i)
{
	const struct record *r = &i->record;
	uint32_t limit = record_limit_ms(r, s->hold_ms), now = (uint32_t)boot_ms();

	if (s->knows && r->shift && record_is_open(r) && ms_expired(now, r->seen_ms, s->hold_ms) &&
	    s->knows(s->user, &i->tuple) == 0)
		limit = s->hold_ms;
	return ms_expired(now, r->seen_ms, limit) && sweep_remove(s, i, limit);
}

int datapath_queue_sweep(struct datapath *dp, uint32_t hold_ms, uint32_t max,
			 datapath_knows_fn *knows, void *user, struct datapath_sweep *ret)
{
	const struct sweep s = { .dp = dp, .hold_ms = hold_ms, .knows = knows, .user = user };
	struct records_item items[READ_AT_ONCE];

	*ret = (struct datapath_sweep){ 0 };
	while (ret->scanned < max && !ret->complete) {
		uint32_t n = records_read(dp->records, &dp->sweep_cursor, items, READ_AT_ONCE);

		for (uint32_t i = 0; i < n; i++)
			ret->removed += sweep_one(&s, &items[i]);
		ret->scanned += n;
		ret->complete = dp->sweep_cursor == 0;
	}
	return 0;
}

int datapath_queue_each(struct datapath *dp, datapath_each_fn *fn, void *user)
{
	struct records_item items[READ_AT_ONCE];
	uint32_t cursor = 0;
	int r = 0;

	do {
		uint32_t n = records_read(dp->records, &cursor, items, READ_AT_ONCE);

		for (uint32_t i = 0; i < n && r == 0; i++)
			r = fn(user, &items[i].tuple, &items[i].record);
	} while (cursor && r == 0);
	return r;
}

int datapath_queue_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user)
{
	struct destination_key k;
	struct destination d;
	int used, r = 0;

	for (uint32_t i = 0; r == 0 && (used = records_destination_at(dp->records, i, &k, &d)) >= 0;
	     i++)
		if (used)
			r = fn(user, &k, &d);
	return r;
}

int datapath_queue_restore(struct datapath *dp, const struct tuple *t, const struct record *r)
{
	struct records_ref ref;
	int ret;

	records_lock(dp->records, t, &ref);
	ret = ref.record ? -EEXIST : records_insert(&ref, t, r);
	if (ret == 0)
		dp->successions[ref.slot] = (struct succession){ 0 };
	records_unlock(&ref);
	if (ret < 0)
		return ret;
	/* a gauge is the difference of two counters, so a restored record counts as made */
	count(&dp->counting, COUNTER_RECORDS_CREATED);
	if (r->state & RECORD_LIVE)
		count(&dp->counting, COUNTER_SHIFTS_STARTED);
	return 0;
}

int datapath_queue_restore_destination(struct datapath *dp, const struct destination_key *k,
				       const struct destination *d)
{
	struct destination *to = records_destination_lock(dp->records, k, true);
	int r = !to ? -ENOSPC : to->high ? -EEXIST : 0;

	if (r == 0)
		*to = *d;
	records_destination_unlock(dp->records);
	return r;
}

int datapath_queue_set_inside(struct datapath *dp, const struct tuple *t,
			      const struct inside *inside)
{
	struct records_ref ref;
	struct record r;
	int ret = -ENOENT;

	records_lock(dp->records, t, &ref);
	if (ref.record) {
		r = *ref.record;
		r.inside = *inside;
		records_replace(&ref, &r);
		ret = 0;
	}
	records_unlock(&ref);
	return ret;
}
