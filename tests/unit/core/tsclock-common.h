/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tsclock-common.h - times, tuples and a key for the tests of clocks. */
#pragma once

#include <stdint.h>

#include "core/tsclock.h"

#define HOLD 300000u
#define START 1000000u /* ms of the boot clock */
#define HOUR 3600000u
#define DAY (24 * HOUR)

#define assert_after(a, b) assert_true((int32_t)((uint32_t)(a) - (uint32_t)(b)) > 0)
#define assert_not_before(a, b) assert_true((int32_t)((uint32_t)(a) - (uint32_t)(b)) >= 0)

static const struct tsclock clock_of_destinations = {
	.key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 },
	.scope = SCOPE_DESTINATION,
};

/* 198.51.100.EXT : PORT -> 192.0.2.DST : 80 */
static inline struct tuple tuple(uint8_t ext, uint16_t port, uint8_t dst)
{
	const uint8_t from[4] = { 198, 51, 100, ext }, to[4] = { 192, 0, 2, dst };
	struct tuple t = { .sport_be = __builtin_bswap16(port), .dport_be = __builtin_bswap16(80) };

	wire_map4(t.src, from);
	wire_map4(t.dst, to);
	return t;
}
