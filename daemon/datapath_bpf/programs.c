// SPDX-License-Identifier: GPL-2.0-or-later
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "pins.h"
#include "programs.h"
#include "tc_hooks.h"
#include "base/util.h"

static int libbpf_message(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	log_vmsg(LOG_DEBUG, fmt, ap);
	(void)level;
	return 0;
}

void programs_quiet(void)
{
	libbpf_set_print(libbpf_message);
}

static void adopt_map(struct bpf_object *obj, uint32_t id)
{
	_cleanup_close_ int fd = bpf_map_get_fd_by_id(id);
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	struct bpf_map *map;

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return;
	map = bpf_object__find_map_by_name(obj, info.name);
	if (!map || bpf_map__type(map) != info.type ||
	    bpf_map__value_size(map) != info.value_size || bpf_map__key_size(map) != info.key_size)
		return;
	bpf_map__reuse_fd(map, fd);
}

/*
 * Pins may be gone while the programs still run, as when somebody mounted another bpffs. Then the
 * shifts of open connections are in the maps of the running program.
 */
static bool adopt_running_maps(struct bpf_object *obj)
{
	struct if_nameindex *ifs = if_nameindex();
	uint32_t ids[16] = { 0 };
	struct bpf_prog_info info = { .nr_map_ids = ARRAY_SIZE(ids), .map_ids = (uintptr_t)ids };
	uint32_t len = sizeof(info), prog = 0;
	_cleanup_close_ int fd = -1;

	for (struct if_nameindex *i = ifs; i && i->if_index && !prog; i++)
		prog = tc_hooks_running(i->if_index);
	if_freenameindex(ifs);
	if (!prog)
		return false;
	fd = bpf_prog_get_fd_by_id(prog);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0) {
		log_warn("a program of an earlier run is attached, but its maps cannot be opened: "
			 "its connections lose their shifts");
		return false;
	}
	log_notice("the pinned maps are gone, taking over those of the running program");
	for (uint32_t i = 0; i < info.nr_map_ids && i < ARRAY_SIZE(ids); i++)
		adopt_map(obj, ids[i]);
	return true;
}

/*
 * Set each map's pin; libbpf reuses a map that is pinned there. Returns how many were pinned
 * already, or -errno.
 */
static int set_pins(struct bpf_object *obj, const char *dir)
{
	struct bpf_map *map;
	int n = 0;

	bpf_object__for_each_map(map, obj)
	{
		char path[300];
		_cleanup_close_ int fd = -1;
		struct bpf_map_info info = { 0 };
		uint32_t len = sizeof(info);
		int r;

		pins_path(path, sizeof(path), dir, bpf_map__name(map));
		r = bpf_map__set_pin_path(map, path);
		if (r < 0)
			return r;
		fd = bpf_obj_get(path);
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
			continue;
		n++;
		if (info.max_entries == bpf_map__max_entries(map))
			continue;
		log_notice("the table keeps its bound of %u records until --cleanup: it holds live "
			   "connections",
			   info.max_entries);
		bpf_map__set_max_entries(map, info.max_entries);
	}
	return n;
}

static int open_object(struct tsnat_bpf **ret)
{
	*ret = tsnat_bpf__open();
	return *ret ? 0 : -errno;
}

static void choose(struct tsnat_bpf *skel, bool ethernet, bool l3)
{
	bpf_program__set_autoload(skel->progs.tsnat_ingress, ethernet);
	bpf_program__set_autoload(skel->progs.tsnat_egress, ethernet);
	bpf_program__set_autoload(skel->progs.tsnat_control, ethernet);
	bpf_program__set_autoload(skel->progs.tsnat_ingress_l3, l3);
	bpf_program__set_autoload(skel->progs.tsnat_egress_l3, l3);
}

static int load(struct tsnat_bpf *skel, const struct datapath_config *cfg, bool *ret_inherited)
{
	int r;

	choose(skel, true, false);
	bpf_map__set_max_entries(skel->maps.records, cfg->records);
	r = set_pins(skel->obj, cfg->pin_dir);
	if (r < 0)
		return r;
	*ret_inherited = r > 0 || adopt_running_maps(skel->obj);
	return tsnat_bpf__load(skel);
}

int programs_load(struct tsnat_bpf **ret, const struct datapath_config *cfg, bool *ret_inherited,
		  const char **ret_error)
{
	struct tsnat_bpf *skel;
	int r = pins_prepare(cfg->pin_dir);

	if (r < 0) {
		*ret_error = "the pin directory cannot be made: it must be on a bpffs (mount -t "
			     "bpf bpf /sys/fs/bpf)";
		return r;
	}
	r = open_object(&skel);
	if (r < 0) {
		*ret_error = "the BPF object cannot be opened";
		return r;
	}
	r = load(skel, cfg, ret_inherited);
	if (r < 0) {
		*ret_error =
			r == -EPERM
				? "no permission to load BPF programs (CAP_BPF and CAP_NET_ADMIN)"
				: "the kernel refused the BPF programs (--log-level debug tells "
				  "why)";
		tsnat_bpf__destroy(skel);
		return r;
	}
	*ret = skel;
	return 0;
}

static int share_maps(struct bpf_object *obj, const struct bpf_object *others)
{
	struct bpf_map *map;
	int r = 0;

	bpf_object__for_each_map(map, obj)
	{
		const struct bpf_map *other =
			bpf_object__find_map_by_name(others, bpf_map__name(map));

		r = bpf_map__reuse_fd(map, bpf_map__fd(other));
		if (r < 0)
			break;
	}
	return r;
}

int programs_load_l3(struct tsnat_bpf **ret, const struct tsnat_bpf *others)
{
	struct tsnat_bpf *skel;
	int r = open_object(&skel);

	if (r < 0)
		return r;
	choose(skel, false, true);
	r = share_maps(skel->obj, others->obj);
	if (r >= 0)
		r = tsnat_bpf__load(skel);
	if (r < 0) {
		tsnat_bpf__destroy(skel);
		return r;
	}
	*ret = skel;
	return 0;
}
