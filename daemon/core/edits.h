/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * edits.h - the 32-bit values of a segment that change when its connection has a shift.
 *
 * Freestanding: the daemon applies the edits to bytes (rewrite.c), the BPF programs to an skb.
 */
#pragma once

#include <linux/types.h>
#include "wire.h"

enum direction {
	DIRECTION_OUT, /* to the server: TSval += shift */
	DIRECTION_IN,  /* to the inside host: TSecr -= shift */
};

struct edit {
	__u32 off;  /* from the TCP header's first byte */
	__u32 from; /* host order */
	__u32 to;
};

/*
 * The edit of the K-th timestamp option. Returns 1, or 0 without writing RET when that option stays
 * as it is: TSecr means nothing in a segment without ACK, and TSecr 0 stands for "none" (RFC 7323,
 * 3.2).
 */
static inline int edit_timestamp(const struct wire_packet *pkt, int k, enum direction dir,
				 __u32 shift, struct edit *ret)
{
	__u32 at, value;

	if (!shift || k >= WIRE_TS_MAX || k >= pkt->ts_count || pkt->auth_option)
		return 0;
	at = pkt->ts_at >> (8 * k) & 0xff;
	if (dir == DIRECTION_IN)
		at += 4;
	if (at > WIRE_OPTS_MAX - 4)
		return 0;
	value = wire_get32(pkt->opts + at);
	if (dir == DIRECTION_IN && (!value || !(pkt->flags & WIRE_ACK)))
		return 0;
	ret->off = 20 + at;
	ret->from = value;
	ret->to = dir == DIRECTION_IN ? value - shift : value + shift;
	return 1;
}
