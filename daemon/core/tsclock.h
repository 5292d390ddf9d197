/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tsclock.h - the clocks of policy "unify": one keyed 1 kHz clock per destination, or per tuple.
 *
 * Freestanding: compiled into the daemon and into the BPF programs. Time is an argument.
 */
#pragma once

#include <linux/types.h>
#include "record.h"
#include "serial.h"
#include "siphash.h"
#include "wire.h"

enum scope {
	SCOPE_DESTINATION,
	SCOPE_TUPLE,
	SCOPE_COUNT,
};

/*
 * What shares a clock under SCOPE_DESTINATION: what a server sees of us that compares per source
 * address.
 */
struct destination_key {
	__u8 ext[16];
	__u8 dst[16];
};

struct destination {
	__u64 high; /* RECORD_LAST(): the highest TSval that left for it, and when; 0: none yet */
	__u64 syns; /* counts for the statistics */
	__u64 shifted;
	__u64 refused;
};

/* What all clocks depend on. The base lets them go on over a reboot, from a floor saved before. */
struct tsclock {
	struct siphash_key key;
	enum scope scope;
	__u32 base_ms; /* added to the boot clock */
};

static inline void destination_of(const struct tuple *t, struct destination_key *ret)
{
	__builtin_memcpy(ret->ext, t->src, 16);
	__builtin_memcpy(ret->dst, t->dst, 16);
}

/* The keyed clock's reading for the tuple at NOW_MS (boot clock). */
static inline __attribute__((always_inline)) __u32
tsclock_keyed(const struct tsclock *c, const struct tuple *t, __u32 now_ms)
{
	__u64 m[5];

	__builtin_memcpy(m, t->src, 16);
	__builtin_memcpy(m + 2, t->dst, 16);
	/* a scope of its own even for a tuple whose ports are zero */
	m[4] = c->scope == SCOPE_TUPLE ? (__u64)t->sport_be << 16 | t->dport_be | 1ULL << 32 : 0;
	return (__u32)siphash(&c->key, m, 5) + c->base_ms + now_ms;
}

/*
 * The clock that a SYN to a destination must show at NOW_MS, given the keyed clock's reading: the
 * destination's own clock goes on from the highest TSval that left, at 1 kHz, so that a client with
 * a faster clock, which pushed it ahead, does not make it step back.
 */
static inline __u32 tsclock_destination(__u64 high, __u32 keyed, __u32 now_ms)
{
	__s32 elapsed = (__s32)(now_ms - RECORD_LAST_MS(high));

	if (!high)
		return keyed;
	return RECORD_LAST_TSVAL(high) + (elapsed > 0 ? (__u32)elapsed : 0);
}

/*
 * What `high` becomes when TSVAL leaves for the destination; the same value when it does not move.
 */
static inline __u64 tsclock_advance(__u64 high, __u32 tsval, __u32 now_ms)
{
	__u32 clock = tsclock_destination(high, tsval, now_ms);

	/*
	 * On time counts, too: a stamp of weeks ago could not be told from one of the future. What
	 * is further ahead than any clock runs between two segments is a slow clock that fell
	 * behind by half the range.
	 */
	if (!high || (!ts_after(clock, tsval) && tsval - clock <= 1u << 30))
		return RECORD_LAST(tsval, now_ms);
	return high;
}
