/* SPDX-License-Identifier: GPL-2.0-or-later */
/* connection-packets.h - core/connection.h with its counters, and packets to drive it with. */
#pragma once

#include <stdint.h>

#include "core/counters.h"

struct counting {
	uint64_t of[COUNTER_COUNT];
};

/* TO is NULL where nobody asks. */
static void count(struct counting *to, __u32 which)
{
	if (to)
		to->of[which]++;
}

#include "core/connection.h"

/* A segment with one timestamp option. */
static inline struct wire_packet packet(uint16_t flags, uint32_t seq, uint32_t tsval)
{
	return (struct wire_packet){ .flags = flags, .seq = seq, .ts_count = 1, .tsval = tsval };
}
