/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * programs.h - the BPF programs and their maps in the kernel: load them, pin them, and take over
 * those of an earlier run.
 */
#pragma once

#include <stdbool.h>

#include "core/datapath.h"
#include "tsnat.skel.h"

/*
 * Load the programs for Ethernet devices and "control", with their maps. The maps are those pinned
 * in the configuration's pin_dir; else those of an earlier run's program that is still attached;
 * else new ones, which are pinned. RET_INHERITED says whether the maps were there before.
 *
 * Returns 0, or -errno with RET_ERROR set. The caller ends RET with tsnat_bpf__destroy().
 */
int programs_load(struct tsnat_bpf **ret, const struct datapath_config *cfg, bool *ret_inherited,
		  const char **ret_error);

/*
 * Load the programs for devices without Ethernet header, with the maps that OTHERS use. They are
 * loaded when the first such device comes, because the kernel's verifier takes its time over each
 * program.
 *
 * Returns 0 or -errno. The caller ends RET with tsnat_bpf__destroy().
 */
int programs_load_l3(struct tsnat_bpf **ret, const struct tsnat_bpf *others);

/*
 * Put libbpf's messages into the log at level debug. Its errors come back as return values, and are
 * logged once, in our words.
 */
void programs_quiet(void);
