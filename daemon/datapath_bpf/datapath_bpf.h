/* SPDX-License-Identifier: GPL-2.0-or-later */
/* datapath_bpf.h - the datapath that applies shifts in programs at tc. */
#pragma once

#include "core/datapath.h"

extern const struct datapath_ops datapath_bpf;
