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
 * Connections with the same key share a clock under SCOPE_DESTINATION: a server that compares
 * timestamps per source address takes them for one host's.
 */
struct destination_key {
	__u8 ext[16];
	__u8 dst[16];
};

struct destination {
	__u64 high; /* RECORD_LAST(): the highest TSval that left for it, and when; 0: none yet */
	__u64 reserved[3]; /* the size is that of the pinned map, and of the state file */
};

/*
 * All clocks depend on these. After a reboot, the base lets them go on from a reading that was
 * saved before.
 */
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
	/* the bit above the ports tells a tuple with ports 0 from a destination */
	m[4] = c->scope == SCOPE_TUPLE ? (__u64)t->sport_be << 16 | t->dport_be | 1ULL << 32 : 0;
	return (__u32)siphash(&c->key, m, 5) + c->base_ms + now_ms;
}

/*
 * The reading of a destination's clock at NOW_MS (boot clock), given the keyed clock's reading. The
 * clock goes on at 1 kHz from HIGH, the highest TSval that left: a client with a faster clock
 * pushes it ahead, and it must not step back afterwards.
 */
static inline __u32 tsclock_destination(__u64 high, __u32 keyed, __u32 now_ms)
{
	__s32 elapsed = (__s32)(now_ms - RECORD_LAST_MS(high));

	if (!high)
		return keyed;
	return RECORD_LAST_TSVAL(high) + (elapsed > 0 ? (__u32)elapsed : 0);
}

/*
 * Returns the new `high` when TSVAL leaves for the destination at NOW_MS (boot clock): HIGH itself
 * when it does not move.
 */
static inline __u64 tsclock_advance(__u64 high, __u32 tsval, __u32 now_ms)
{
	__u32 clock = tsclock_destination(high, tsval, now_ms);

	/*
	 * A TSval that is just on time renews the stamp, too: a stamp of weeks ago could not be
	 * told from one of the future. A TSval that seems further ahead than any clock runs between
	 * two segments comes from a slow clock that fell behind by half the range.
	 */
	if (!high || (!ts_after(clock, tsval) && tsval - clock <= 1u << 30))
		return RECORD_LAST(tsval, now_ms);
	return high;
}
