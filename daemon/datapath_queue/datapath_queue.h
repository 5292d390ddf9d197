/* SPDX-License-Identifier: GPL-2.0-or-later */
/* datapath_queue.h - the datapath without BPF: shifts are applied to queued packets. */
#pragma once

#include "core/datapath.h"

extern const struct datapath_ops datapath_queue;

/*
 * How many connections with a shift a run with this datapath left behind in this boot: they wait as
 * long as its rules are there. Opens the table, so no run may have it.
 */
uint64_t datapath_queue_open_shifts(const struct datapath_config *cfg);
