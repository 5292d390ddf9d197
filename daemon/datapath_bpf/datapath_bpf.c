// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_bpf.c - the datapath as tc programs. The pinned map is the record table: there is no
 * copy of it here.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "maps.h"
#include "datapath_bpf.h"
#include "pins.h"
#include "programs.h"
#include "tc_hooks.h"
#include "base/util.h"

#define SWEEP_BATCH 1024

/* Where a walk through the table is; the buffers belong to whoever walks. */
struct batch {
	uint32_t cursor;
	bool begun;
	uint32_t n;
	struct tuple keys[SWEEP_BATCH];
	struct record values[SWEEP_BATCH];
};

struct datapath {
	struct tsnat_bpf *skel;
	struct tsnat_bpf *l3; /* NULL until a device without Ethernet header comes */
	int records_fd, proposals_fd, destinations_fd, control_fd;
	int cpus;
	bool was_live;	  /* the maps were there before us */
	uint32_t records; /* the table's bound */
	struct tsclock clock;

	struct batch *sweep; /* where the sweep goes on */
};

static void bpf_close(struct datapath *dp)
{
	if (!dp)
		return;
	tsnat_bpf__destroy(dp->l3);
	tsnat_bpf__destroy(dp->skel);
	free(dp->sweep);
	free(dp);
}

static int bpf_configure(struct datapath *dp, const struct datapath_config *cfg, bool active)
{
	const uint32_t zero = 0;
	struct settings set = {
		.active = active,
		.policy = cfg->policy,
		.hold_ms = cfg->hold_ms,
		.clock = cfg->clock,
	};

	dp->clock = cfg->clock;
	return bpf_map_update_elem(bpf_map__fd(dp->skel->maps.settings), &zero, &set, BPF_ANY);
}

static int bpf_open(struct datapath **ret, const struct datapath_config *cfg,
		    const char **ret_error)
{
	struct datapath *dp = calloc(1, sizeof(*dp));
	int r;

	programs_quiet();
	if (!dp)
		return -ENOMEM;
	dp->sweep = calloc(1, sizeof(*dp->sweep));
	dp->cpus = libbpf_num_possible_cpus();
	r = dp->sweep && dp->cpus > 0 ? programs_load(&dp->skel, cfg, &dp->was_live, ret_error)
				      : -ENOMEM;
	if (r < 0) {
		bpf_close(dp);
		return r;
	}
	dp->records_fd = bpf_map__fd(dp->skel->maps.records);
	dp->proposals_fd = bpf_map__fd(dp->skel->maps.proposals);
	dp->destinations_fd = bpf_map__fd(dp->skel->maps.destinations);
	dp->records = bpf_map__max_entries(dp->skel->maps.records);
	dp->control_fd = bpf_program__fd(dp->skel->progs.tsnat_control);
	*ret = dp;
	return 0;
}

static int bpf_live(struct datapath *dp, struct tsclock *ret_clock)
{
	const uint32_t zero = 0;
	struct settings set;

	if (!dp->was_live ||
	    bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.settings), &zero, &set) < 0)
		return 0;
	*ret_clock = set.clock;
	return 1;
}

/* ---- hooks ---- */

/* The two programs for the link, loaded if need be. Returns 0 or -errno. */
static int programs_for(struct datapath *dp, const struct datapath_link *link, int *ret_ingress,
			int *ret_egress)
{
	int r;

	if (link->has_ethernet) {
		*ret_ingress = bpf_program__fd(dp->skel->progs.tsnat_ingress);
		*ret_egress = bpf_program__fd(dp->skel->progs.tsnat_egress);
		return 0;
	}
	r = dp->l3 ? 0 : programs_load_l3(&dp->l3, dp->skel);
	if (r < 0)
		return r;
	*ret_ingress = bpf_program__fd(dp->l3->progs.tsnat_ingress_l3);
	*ret_egress = bpf_program__fd(dp->l3->progs.tsnat_egress_l3);
	return 0;
}

static int bpf_attach(struct datapath *dp, const struct datapath_link *link, const char **ret_error)
{
	int ingress, egress, r = programs_for(dp, link, &ingress, &egress);

	if (r < 0) {
		*ret_error = "the kernel refused the BPF programs for devices without Ethernet "
			     "header (--log-level debug tells why)";
		return r;
	}
	return tc_hooks_attach(bpf_map__fd(dp->skel->maps.hooks), link->ifindex, ingress, egress,
			       ret_error);
}

static int bpf_detach(struct datapath *dp, const struct datapath_link *link)
{
	return tc_hooks_detach(bpf_map__fd(dp->skel->maps.hooks), link->ifindex);
}

static int bpf_attached(struct datapath *dp, const struct datapath_link *link)
{
	int ingress, egress;

	if (!link->has_ethernet && !dp->l3)
		return 0;
	return programs_for(dp, link, &ingress, &egress) == 0 &&
	       tc_hooks_attached(link->ifindex, ingress, egress);
}

static int bpf_cleanup(const struct datapath_config *cfg)
{
	struct if_nameindex *ifs = if_nameindex();
	char path[300];
	_cleanup_close_ int hooks_fd = -1;

	programs_quiet();
	pins_path(path, sizeof(path), cfg->pin_dir, "hooks");
	hooks_fd = bpf_obj_get(path);
	for (struct if_nameindex *i = ifs; i && i->if_index; i++)
		tc_hooks_detach(hooks_fd, i->if_index);
	if_freenameindex(ifs);
	return pins_remove(cfg->pin_dir);
}

static uint64_t counter_of_all_cpus(int counters_fd, uint32_t which)
{
	const int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ uint64_t *per_cpu = cpus > 0 ? calloc((size_t)cpus, sizeof(*per_cpu)) : NULL;
	uint64_t sum = 0;

	if (per_cpu && bpf_map_lookup_elem(counters_fd, &which, per_cpu) == 0)
		for (int i = 0; i < cpus; i++)
			sum += per_cpu[i];
	return sum;
}

static int bpf_retire(const struct datapath_config *cfg)
{
	_cleanup_close_ int settings_fd = -1, counters_fd = -1;
	const uint32_t zero = 0;
	struct settings set;
	char path[300];

	programs_quiet();
	pins_path(path, sizeof(path), cfg->pin_dir, "settings");
	if (access(path, F_OK) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	settings_fd = bpf_obj_get(path);
	pins_path(path, sizeof(path), cfg->pin_dir, "counters");
	counters_fd = bpf_obj_get(path);
	/* without CAP_BPF the programs cannot be told; they can only be taken off */
	if (settings_fd < 0 || counters_fd < 0 || bpf_map_lookup_elem(settings_fd, &zero, &set) < 0)
		return bpf_cleanup(cfg);
	set.active = 0;
	if (bpf_map_update_elem(settings_fd, &zero, &set, BPF_ANY) < 0 ||
	    counter_of_all_cpus(counters_fd, COUNTER_SHIFTS_STARTED) ==
		    counter_of_all_cpus(counters_fd, COUNTER_SHIFTS_ENDED))
		return bpf_cleanup(cfg);
	return 1;
}

/* ---- translated sources ---- */

static void external_to_key(const struct datapath_external *e, struct external_key *ret)
{
	*ret = (struct external_key){ .prefixlen = 32u + e->prefixlen,
				      .ifindex_be = htonl(e->ifindex) };
	memcpy(ret->addr, e->addr, sizeof(ret->addr));
}

static bool is_wanted(const struct external_key *k, const struct datapath_external *ext, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct external_key want;

		external_to_key(&ext[i], &want);
		if (!memcmp(&want, k, sizeof(want)))
			return true;
	}
	return false;
}

/*
 * What is wanted goes in first, what is not goes out after: an address that stays is never missing.
 */
static int bpf_set_externals(struct datapath *dp, const struct datapath_external *ext, size_t n)
{
	int fd = bpf_map__fd(dp->skel->maps.externals);
	const uint32_t one = 1;
	struct external_key k, next;
	bool more;

	for (size_t i = 0; i < n; i++) {
		external_to_key(&ext[i], &k);
		if (bpf_map_update_elem(fd, &k, &one, BPF_ANY) < 0)
			return -errno;
	}
	more = bpf_map_get_next_key(fd, NULL, &k) == 0;
	for (uint32_t i = 0; more && i < 2 * bpf_map__max_entries(dp->skel->maps.externals); i++) {
		more = bpf_map_get_next_key(fd, &k, &next) == 0;
		if (!is_wanted(&k, ext, n))
			bpf_map_delete_elem(fd, &k);
		k = next;
	}
	return 0;
}

/* ---- records ---- */

static int bpf_lookup(struct datapath *dp, const struct tuple *t, struct record *ret)
{
	return bpf_map_lookup_elem(dp->records_fd, t, ret) < 0 ? -errno : 0;
}

static void bpf_set_clock(struct datapath *dp, const struct tuple *t, struct decide_input *in)
{
	struct destination_key k;
	struct destination d;
	bool known = false;

	destination_of(t, &k);
	if (dp->clock.scope == SCOPE_DESTINATION)
		known = bpf_map_lookup_elem(dp->destinations_fd, &k, &d) == 0;
	decide_set_clock(in, &dp->clock, t, known ? &d : NULL);
}

static int bpf_propose(struct datapath *dp, const struct tuple *t, uint32_t isn, uint32_t shift,
		       const struct inside *inside, uint32_t now_ms)
{
	struct proposal p = { .isn = isn, .shift = shift, .at_ms = now_ms };

	if (inside)
		p.inside = *inside;
	return bpf_map_update_elem(dp->proposals_fd, t, &p, BPF_ANY) < 0 ? -errno : 0;
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
	datapath_alive_fn *alive;
	void *user;
	struct control_key dead[CONTROL_KEYS];
	uint32_t n_dead, removed;
};

/*
 * A record looks expired here, but its tuple may get a SYN before it is removed. That is settled in
 * the kernel: see sweep_one() in tsnat.bpf.c, which removes only what is still in the state that
 * was read here and has still been silent.
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

	if (s->alive && r->shift && record_is_open(r) && ms_expired(now, r->seen_ms, s->hold_ms) &&
	    s->alive(s->user, t) == 0)
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

static int bpf_sweep(struct datapath *dp, uint32_t hold_ms, uint32_t max, datapath_alive_fn *alive,
		     void *user, struct datapath_sweep *ret)
{
	struct sweep s = { .dp = dp, .hold_ms = hold_ms, .alive = alive, .user = user };
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

static int bpf_each(struct datapath *dp, datapath_each_fn *fn, void *user)
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

static int bpf_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user)
{
	struct destination_key k, next;
	struct destination d;
	int r = 0;
	bool more = bpf_map_get_next_key(dp->destinations_fd, NULL, &k) == 0;

	/* a key that vanished in between starts the walk again: bounded all the same */
	for (uint32_t i = 0;
	     more && r == 0 && i < 2 * bpf_map__max_entries(dp->skel->maps.destinations); i++) {
		if (bpf_map_lookup_elem(dp->destinations_fd, &k, &d) == 0)
			r = fn(user, &k, &d);
		more = bpf_map_get_next_key(dp->destinations_fd, &k, &next) == 0;
		k = next;
	}
	return r;
}

/* ---- what was saved ---- */

/*
 * The gauges are differences of counters: what comes back counts as made. Nobody else counts yet.
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

static int bpf_restore(struct datapath *dp, const struct tuple *t, const struct record *r)
{
	if (bpf_map_update_elem(dp->records_fd, t, r, BPF_NOEXIST) < 0)
		return -errno;
	if (r->state & RECORD_LIVE)
		count_restored(dp, COUNTER_SHIFTS_STARTED);
	return count_restored(dp, COUNTER_RECORDS_CREATED);
}

static int bpf_restore_destination(struct datapath *dp, const struct destination_key *k,
				   const struct destination *d)
{
	return bpf_map_update_elem(dp->destinations_fd, k, d, BPF_NOEXIST) < 0 ? -errno : 0;
}

static int bpf_set_inside(struct datapath *dp, const struct tuple *t, const struct inside *inside)
{
	const struct control_key k = { .tuple = *t, .inside = *inside };
	int r = control(dp, CONTROL_INSIDE, &k, 1);

	return r < 0 ? r : r == 0 ? -ENOENT : 0;
}

static int bpf_counters(struct datapath *dp, uint64_t *counters)
{
	_cleanup_free_ uint64_t *per_cpu = calloc((size_t)dp->cpus, sizeof(*per_cpu));

	if (!per_cpu)
		return -ENOMEM;
	for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
		if (bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.counters), &i, per_cpu) < 0)
			return -errno;
		for (int c = 0; c < dp->cpus; c++)
			counters[i] += per_cpu[c];
	}
	return 0;
}

const struct datapath_ops datapath_bpf = {
	.name = "bpf",
	.open = bpf_open,
	.close = bpf_close,
	.live = bpf_live,
	.configure = bpf_configure,
	.attach = bpf_attach,
	.detach = bpf_detach,
	.attached = bpf_attached,
	.set_externals = bpf_set_externals,
	.lookup = bpf_lookup,
	.set_clock = bpf_set_clock,
	.propose = bpf_propose,
	.sweep = bpf_sweep,
	.each = bpf_each,
	.each_destination = bpf_each_destination,
	.restore = bpf_restore,
	.restore_destination = bpf_restore_destination,
	.set_inside = bpf_set_inside,
	.counters = bpf_counters,
	.cleanup = bpf_cleanup,
	.retire = bpf_retire,
};
