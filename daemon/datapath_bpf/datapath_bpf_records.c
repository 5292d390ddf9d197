// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_bpf_records.c - the records of the bpf datapath, for the rest of the daemon. The pinned
 * map is the table: there is no copy of it here.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "datapath_bpf_parts.h"
#include "maps.h"

#define SWEEP_BATCH 1024

/* The place of a walk through the table, and the records read there. */
struct batch {
	uint32_t cursor;
	bool begun;
	uint32_t n;
	struct tuple keys[SWEEP_BATCH];
	struct record values[SWEEP_BATCH];
};

struct batch *datapath_bpf_sweep_new(void)
{
	return calloc(1, sizeof(struct batch));
}

/* Run the program "control" on N keys. Returns how many records it changed, or -errno. */
static int control(struct datapath *dp, enum control_op op, const struct control_key *keys,
		   uint32_t n)
{
	struct {
		struct control_head head;
		struct control_key keys[CONTROL_KEYS];
	} req = { .head = { .op = op, .count = n } };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &req,
		    .data_size_in = (uint32_t)(sizeof(req.head) + n * sizeof(req.keys[0])),
		    .repeat = 1);

	memcpy(req.keys, keys, n * sizeof(*keys));
	return bpf_prog_test_run_opts(dp->control_fd, &opts) < 0 ? -errno : (int)opts.retval;
}

/* A sweep under way. */
struct sweep {
	struct datapath *dp;
	uint32_t hold_ms;
	datapath_knows_fn *knows;
	void *user;
	struct control_key dead[CONTROL_KEYS];
	uint32_t n_dead, removed;
};

/*
 * These records look expired here, but a SYN may come on a tuple before its record is removed.
 * sweep_one() in tsnat.bpf.c settles that in the kernel: it removes a record only if its state is
 * still the one that was read here, and it has been silent since.
 */
static void sweep_remove(struct sweep *s)
{
	int done = s->n_dead ? control(s->dp, CONTROL_SWEEP, s->dead, s->n_dead) : 0;

	s->removed += done > 0 ? (uint32_t)done : 0;
	s->n_dead = 0;
}

static void sweep_record(struct sweep *s, const struct tuple *t, const struct record *r)
{
	uint32_t limit = record_limit_ms(r, s->hold_ms), now = (uint32_t)boot_ms();

	if (s->knows && r->shift && record_is_open(r) && ms_expired(now, r->seen_ms, s->hold_ms) &&
	    s->knows(s->user, t) == 0)
		limit = s->hold_ms;
	if (!ms_expired(now, r->seen_ms, limit))
		return;
	s->dead[s->n_dead++] =
		(struct control_key){ .tuple = *t, .state = r->state, .limit_ms = limit };
	if (s->n_dead == CONTROL_KEYS)
		sweep_remove(s);
}

/* Read the next records. Returns 1 at the end of the table, 0 before, or -errno. */
static int next_batch(struct datapath *dp, struct batch *b)
{
	uint32_t next = b->cursor;
	int r;

	b->n = SWEEP_BATCH;
	r = bpf_map_lookup_batch(dp->records_fd, b->begun ? &b->cursor : NULL, &next, b->keys,
				 b->values, &b->n, NULL);
	if (r < 0 && errno != ENOENT) {
		b->begun = false; /* begin again next time */
		b->n = 0;
		return -errno;
	}
	b->cursor = next;
	b->begun = r == 0;
	return r < 0;
}

int datapath_bpf_sweep(struct datapath *dp, uint32_t hold_ms, uint32_t max,
		       datapath_knows_fn *knows, void *user, struct datapath_sweep *ret)
{
	struct sweep s = { .dp = dp, .hold_ms = hold_ms, .knows = knows, .user = user };
	struct batch *b = dp->sweep;
	int r = 0;

	*ret = (struct datapath_sweep){ 0 };
	while (ret->scanned < max && r == 0) {
		r = next_batch(dp, b);
		for (uint32_t i = 0; i < b->n; i++)
			sweep_record(&s, &b->keys[i], &b->values[i]);
		sweep_remove(&s);
		ret->scanned += b->n;
	}
	ret->removed = s.removed;
	ret->complete = r == 1;
	return r < 0 ? r : 0;
}

int datapath_bpf_each(struct datapath *dp, datapath_each_fn *fn, void *user)
{
	_cleanup_free_ struct batch *b = calloc(1, sizeof(*b));
	int end = 0, r = 0;

	if (!b)
		return -ENOMEM;
	while (end == 0 && r == 0) {
		end = next_batch(dp, b);
		for (uint32_t i = 0; i < b->n && r == 0; i++)
			r = fn(user, &b->keys[i], &b->values[i]);
	}
	return end < 0 ? end : r;
}

int datapath_bpf_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user)
{
	struct destination_key k, next;
	struct destination d;
	int r = 0;
	bool more = bpf_map_get_next_key(dp->destinations_fd, NULL, &k) == 0;

	/* if a key vanishes in between, the walk starts again; the bound ends it all the same */
	for (uint32_t i = 0;
	     more && r == 0 && i < 2 * bpf_map__max_entries(dp->skel->maps.destinations); i++) {
		if (bpf_map_lookup_elem(dp->destinations_fd, &k, &d) == 0)
			r = fn(user, &k, &d);
		more = bpf_map_get_next_key(dp->destinations_fd, &k, &next) == 0;
		k = next;
	}
	return r;
}

/* ---- saved records ---- */

/*
 * A gauge is the difference of two counters, so a restored record counts as made. Nobody else
 * counts yet.
 */
static int count_restored(struct datapath *dp, enum counter which)
{
	_cleanup_free_ uint64_t *per_cpu = calloc((size_t)dp->cpus, sizeof(*per_cpu));
	int fd = bpf_map__fd(dp->skel->maps.counters);

	if (!per_cpu || bpf_map_lookup_elem(fd, &which, per_cpu) < 0)
		return -ENOMEM;
	per_cpu[0]++;
	return bpf_map_update_elem(fd, &which, per_cpu, BPF_ANY) < 0 ? -errno : 0;
}

int datapath_bpf_restore(struct datapath *dp, const struct tuple *t, const struct record *r)
{
	if (bpf_map_update_elem(dp->records_fd, t, r, BPF_NOEXIST) < 0)
		return -errno;
	if (r->state & RECORD_LIVE)
		count_restored(dp, COUNTER_SHIFTS_STARTED);
	return count_restored(dp, COUNTER_RECORDS_CREATED);
}

int datapath_bpf_restore_destination(struct datapath *dp, const struct destination_key *k,
				     const struct destination *d)
{
	return bpf_map_update_elem(dp->destinations_fd, k, d, BPF_NOEXIST) < 0 ? -errno : 0;
}

int datapath_bpf_set_inside(struct datapath *dp, const struct tuple *t, const struct inside *inside)
{
	const struct control_key k = { .tuple = *t, .inside = *inside };
	int r = control(dp, CONTROL_INSIDE, &k, 1);

	return r < 0 ? r : r == 0 ? -ENOENT : 0;
}
