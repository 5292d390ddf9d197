/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * programs.h - the BPF programs and their maps in the kernel: loading, pinning, and taking over
 * what an earlier run left.
 *
 * A part of the bpf datapath, as tc_hooks.h is.
 */
#pragma once

#include <stdbool.h>

#include "core/datapath.h"
#include "tsnat.skel.h"

/*
 * Load the programs for Ethernet devices and "control", with their maps: those pinned in the
 * configuration's pin_dir, else those of a program of an earlier run that is still attached, else
 * new ones, which are pinned. RET_WAS_LIVE says whether they were there before.
 *
 * Returns 0, or -errno with RET_ERROR set. RET is the caller's, to be ended with
 * tsnat_bpf__destroy().
 */
int programs_load(struct tsnat_bpf **ret, const struct datapath_config *cfg, bool *ret_was_live,
		  const char **ret_error);

/*
 * Load the programs for devices without Ethernet header, with the maps that OTHERS use. They are
 * loaded when the first such device comes: the kernel's verifier takes its time over each program.
 *
 * Returns 0 or -errno. RET is the caller's.
 */
int programs_load_l3(struct tsnat_bpf **ret, const struct tsnat_bpf *others);

/*
 * Route libbpf's messages into the log: what matters comes back as an error, and is said once, in
 * our words.
 */
void programs_quiet(void);
