// SPDX-License-Identifier: GPL-2.0-or-later
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "maps.h"
#include "qdisc.h"
#include "tc_hooks.h"
#include "base/util.h"

/*
 * Our place at both hooks is always the same, so that a restart replaces a program instead of
 * adding one. It is before the automatic priorities, which end at 49152, and behind those that
 * people usually give by hand.
 */
#define FILTER_HANDLE 0x7473
#define FILTER_PRIORITY 7

/* Returns the id of the program there, or 0. */
static uint32_t running_program(enum bpf_tc_attach_point point, unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	_cleanup_close_ int fd = -1;

	if (bpf_tc_query(&hook, &opts) < 0)
		return 0;
	fd = bpf_prog_get_fd_by_id(opts.prog_id);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		/*
		 * programs cannot be looked at without CAP_SYS_ADMIN; the handle tells that it is
		 * ours
		 */
		return opts.prog_id;
	return strncmp(info.name, "tsnat_", 6) == 0 ? opts.prog_id : 0;
}

uint32_t tc_hooks_running(unsigned int ifindex)
{
	return running_program(BPF_TC_EGRESS, ifindex);
}

static int make_qdisc(int hooks_fd, unsigned int ifindex, const char **ret_error)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	struct hook mine = { .made_qdisc = 1 };
	int r = qdisc_at_hooks(ifindex);

	if (r < 0)
		return r;
	if (r == QDISC_INGRESS) {
		*ret_error = "an `ingress` qdisc is in the way: it has no egress hook; replace it "
			     "by `clsact` "
			     "(tc qdisc del dev IFACE ingress; tc qdisc add dev IFACE clsact)";
		return -EEXIST;
	}
	if (r == QDISC_CLSACT)
		return 0;
	r = bpf_tc_hook_create(&hook);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	return bpf_map_update_elem(hooks_fd, &ifindex, &mine, BPF_ANY);
}

static int attach_program(unsigned int ifindex, enum bpf_tc_attach_point point, int prog_fd)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY,
		    .prog_fd = prog_fd, .flags = BPF_TC_F_REPLACE);

	return bpf_tc_attach(&hook, &opts);
}

int tc_hooks_attach(int hooks_fd, unsigned int ifindex, int ingress_fd, int egress_fd,
		    const char **ret_error)
{
	int r = make_qdisc(hooks_fd, ifindex, ret_error);

	if (r < 0)
		return r;
	/* ingress first: no segment gets a shift before the way back can take it off */
	r = attach_program(ifindex, BPF_TC_INGRESS, ingress_fd);
	if (r >= 0)
		r = attach_program(ifindex, BPF_TC_EGRESS, egress_fd);
	if (r < 0)
		*ret_error = r == -EPERM ? "no permission to attach tc filters (CAP_NET_ADMIN)"
					 : "tc priority 7 is taken by a filter of another kind";
	return r;
}

static void detach_program(unsigned int ifindex, enum bpf_tc_attach_point point)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);

	if (running_program(point, ifindex))
		bpf_tc_detach(&hook, &opts);
}

int tc_hooks_detach(int hooks_fd, unsigned int ifindex)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	struct hook mine = { 0 };

	/* egress first: as long as segments get a shift, the way back takes it off */
	detach_program(ifindex, BPF_TC_EGRESS);
	detach_program(ifindex, BPF_TC_INGRESS);
	if (hooks_fd < 0 || bpf_map_lookup_elem(hooks_fd, &ifindex, &mine) < 0 || !mine.made_qdisc)
		return 0;
	bpf_map_delete_elem(hooks_fd, &ifindex);
	if (qdisc_at_hooks(ifindex) != QDISC_CLSACT || qdisc_count_filters(ifindex) != 0)
		return 0;
	return bpf_tc_hook_destroy(&hook);
}

static bool program_is(enum bpf_tc_attach_point point, unsigned int ifindex, int prog_fd)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = FILTER_HANDLE, .priority = FILTER_PRIORITY);
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);

	return bpf_tc_query(&hook, &opts) == 0 &&
	       bpf_obj_get_info_by_fd(prog_fd, &info, &len) == 0 && info.id == opts.prog_id;
}

bool tc_hooks_attached(unsigned int ifindex, int ingress_fd, int egress_fd)
{
	return program_is(BPF_TC_INGRESS, ifindex, ingress_fd) &&
	       program_is(BPF_TC_EGRESS, ifindex, egress_fd);
}
