/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * siphash.h - SipHash-2-4 (Aumasson and Bernstein, 2012) of whole 64-bit words. There is no library
 * for BPF programs.
 *
 * Freestanding: compiled into the daemon and into the BPF programs; tested against the authors'
 * vectors.
 */
#pragma once

#include <linux/types.h>

struct siphash_key {
	__u64 k0, k1;
};

#define SIPHASH_ROTL(x, b) ((x) << (b) | (x) >> (64 - (b)))

struct siphash_state {
	__u64 v0, v1, v2, v3;
};

static inline __attribute__((always_inline)) void siphash_round(struct siphash_state *s)
{
	s->v0 += s->v1;
	s->v1 = SIPHASH_ROTL(s->v1, 13) ^ s->v0;
	s->v0 = SIPHASH_ROTL(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = SIPHASH_ROTL(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = SIPHASH_ROTL(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = SIPHASH_ROTL(s->v1, 17) ^ s->v2;
	s->v2 = SIPHASH_ROTL(s->v2, 32);
}

static inline __attribute__((always_inline)) void siphash_word(struct siphash_state *s, __u64 m)
{
	s->v3 ^= m;
	siphash_round(s);
	siphash_round(s);
	s->v0 ^= m;
}

/* The hash of the N words at M; each is 8 bytes of the input in little-endian order. */
static inline __attribute__((always_inline)) __u64 siphash(const struct siphash_key *key,
							   const __u64 *m, __u32 n)
{
	struct siphash_state s = {
		.v0 = key->k0 ^ 0x736f6d6570736575ULL,
		.v1 = key->k1 ^ 0x646f72616e646f6dULL,
		.v2 = key->k0 ^ 0x6c7967656e657261ULL,
		.v3 = key->k1 ^ 0x7465646279746573ULL,
	};

	for (__u32 i = 0; i < n; i++)
		siphash_word(&s, m[i]);
	siphash_word(&s, (__u64)n << 59); /* the length in bytes, modulo 256, in the top byte */
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		siphash_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
