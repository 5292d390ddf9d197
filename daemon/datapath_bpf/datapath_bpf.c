// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_bpf.c - the datapath as tc programs: open it, tell it its settings, put it on
 * interfaces, and take it off.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/mutex.h"
#include "base/util.h"
#include "datapath_bpf.h"
#include "datapath_bpf_parts.h"
#include "maps.h"
#include "pins.h"
#include "programs.h"
#include "tc_hooks.h"

static void bpf_close(struct datapath *dp)
{
	if (!dp)
		return;
	tsnat_bpf__destroy(dp->l3);
	tsnat_bpf__destroy(dp->skel);
	free(dp->sweep);
	pthread_mutex_destroy(&dp->lock);
	free(dp);
}

static int bpf_configure(struct datapath *dp, const struct decide_settings *set, bool active)
{
	const uint32_t zero = 0;
	const struct settings to_programs = {
		.active = active,
		.policy = set->policy,
		.hold_ms = set->hold_ms,
		.clock = set->clock,
	};

	pthread_mutex_lock(&dp->lock);
	dp->settings = *set;
	pthread_mutex_unlock(&dp->lock);
	return bpf_map_update_elem(bpf_map__fd(dp->skel->maps.settings), &zero, &to_programs,
				   BPF_ANY) < 0
		       ? -errno
		       : 0;
}

static int bpf_open(struct datapath **ret, const struct datapath_config *cfg,
		    const char **ret_error)
{
	struct datapath *dp = calloc(1, sizeof(*dp));
	int r;

	programs_quiet();
	if (!dp)
		return -ENOMEM;
	mutex_init_inheriting(&dp->lock);
	dp->sweep = datapath_bpf_sweep_new();
	dp->cpus = libbpf_num_possible_cpus();
	r = dp->sweep && dp->cpus > 0 ? programs_load(&dp->skel, cfg, &dp->inherited, ret_error)
				      : -ENOMEM;
	if (r < 0) {
		bpf_close(dp);
		return r;
	}
	dp->records_fd = bpf_map__fd(dp->skel->maps.records);
	dp->proposals_fd = bpf_map__fd(dp->skel->maps.proposals);
	dp->destinations_fd = bpf_map__fd(dp->skel->maps.destinations);
	dp->control_fd = bpf_program__fd(dp->skel->progs.tsnat_control);
	*ret = dp;
	return 0;
}

static int bpf_inherited(struct datapath *dp, struct tsclock *ret_clock)
{
	const uint32_t zero = 0;
	struct settings set;

	if (!dp->inherited ||
	    bpf_map_lookup_elem(bpf_map__fd(dp->skel->maps.settings), &zero, &set) < 0)
		return 0;
	*ret_clock = set.clock;
	return 1;
}

/* ---- hooks ---- */

/* Find the two programs for the link, and load them if need be. Returns 0 or -errno. */
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
	/* without CAP_BPF the programs cannot be told to stop; they can only be taken off */
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

/* New addresses go in before old ones go out: an address that stays is never missing. */
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
	.inherited = bpf_inherited,
	.configure = bpf_configure,
	.attach = bpf_attach,
	.detach = bpf_detach,
	.attached = bpf_attached,
	.set_externals = bpf_set_externals,
	.handle = datapath_bpf_handle,
	.sweep = datapath_bpf_sweep,
	.each = datapath_bpf_each,
	.each_destination = datapath_bpf_each_destination,
	.restore = datapath_bpf_restore,
	.restore_destination = datapath_bpf_restore_destination,
	.set_inside = datapath_bpf_set_inside,
	.counters = bpf_counters,
	.cleanup = bpf_cleanup,
	.retire = bpf_retire,
};
