/* SPDX-License-Identifier: GPL-2.0-or-later */
/* datapath_queue.h - the datapath without BPF: shifts are applied to queued packets. */
#pragma once

#include "core/datapath.h"

extern const struct datapath_ops datapath_queue;

/*
 * Returns the number of open shifted connections that an earlier run with this datapath left in
 * this boot: their segments wait as long as that run's rules are there. Opens the table, so no
 * daemon may be running.
 */
uint64_t datapath_queue_open_shifts(const struct datapath_config *cfg);
