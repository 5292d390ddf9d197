/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wire_parse.h - from bytes to struct wire_packet.
 *
 * Freestanding: the daemon and the BPF programs compile this same text, so that both see every
 * packet alike. The including file defines first how bytes are fetched:
 *
 *	struct wire_src { ... };
 *	static int wire_load(const struct wire_src *src, __u32 off, void *to, __u32 len);
 *
 * wire_load() copies LEN bytes (never 0) that start OFF bytes into the packet, or returns a
 * negative error when the packet ends before.
 */
#pragma once

#include <linux/types.h>
#include "wire.h"

/* The bytes of the packet that the network header leaves to TCP. */
struct wire_l4 {
	__u32 off;
	/* first byte behind the IP packet; ~0 when the header does not say (a GSO jumbogram) */
	__u32 end;
};

static inline enum wire_status wire_ipv4(const struct wire_src *src, __u32 off, struct tuple *t,
					 struct wire_l4 *l4)
{
	__u8 h[20];
	__u32 ihl, total;

	if (wire_load(src, off, h, sizeof(h)) < 0)
		return WIRE_BAD;
	ihl = (h[0] & 15) * 4u;
	total = wire_get16(h + 2);
	if (h[0] >> 4 != 4 || ihl < 20 || (total && total < ihl))
		return WIRE_BAD;
	if (h[9] != 6)
		return WIRE_OTHER;
	if (wire_get16(h + 6) & 0x1fff)
		return WIRE_OTHER; /* a later fragment: its bytes are payload, even if they look
				      like a header */
	wire_map4(t->src, h + 12);
	wire_map4(t->dst, h + 16);
	l4->off = off + ihl;
	l4->end = total ? off + total : ~0u;
	return WIRE_TCP;
}

static inline enum wire_status wire_ipv6(const struct wire_src *src, __u32 off, struct tuple *t,
					 struct wire_l4 *l4)
{
	__u8 h[40];
	__u8 next;
	__u32 at = off + 40, payload;

	if (wire_load(src, off, h, sizeof(h)) < 0 || h[0] >> 4 != 6)
		return WIRE_BAD;
	payload = wire_get16(h + 4);
	next = h[6];
	__builtin_memcpy(t->src, h + 8, 16);
	__builtin_memcpy(t->dst, h + 24, 16);
	for (int i = 0; i < WIRE_EXT_MAX && next != 6; i++) {
		__u8 e[4];

		switch (next) {
		case 0:	  /* hop-by-hop */
		case 43:  /* routing */
		case 44:  /* fragment */
		case 51:  /* AH */
		case 60:  /* destination options */
		case 135: /* mobility */
			break;
		default:
			return WIRE_OTHER;
		}
		if (wire_load(src, at, e, sizeof(e)) < 0)
			return WIRE_BAD;
		if (next == 44) {
			if (wire_get16(e + 2) & 0xfff8)
				return WIRE_OTHER;
			at += 8;
		} else if (next == 51) {
			at += (e[1] + 2u) * 4; /* RFC 4302: in 4-byte units, minus 2 */
		} else {
			at += (e[1] + 1u) * 8;
		}
		next = e[0];
	}
	if (next != 6)
		return WIRE_OTHER;
	l4->off = at;
	l4->end = payload ? off + 40 + payload : ~0u;
	return WIRE_TCP;
}

/*
 * Walk over the options as receivers do (RFC 9293, 3.1). The walk stops at the end-of-list option
 * and at the first option with an impossible length; the options before that count. A kind 8 of
 * another length than 10 is no timestamp. Of several timestamps the last one counts.
 */
static inline void wire_options(struct wire_packet *p)
{
	__u32 skip = 0;

	/* nearly every segment of a connection: NOP NOP timestamp, and nothing else */
	if (p->opts_len == 12 && p->opts[0] == 1 && p->opts[1] == 1 && p->opts[2] == 8 &&
	    p->opts[3] == 10) {
		p->ts_count = 1;
		p->ts_at = 4;
		p->tsval = wire_get32(p->opts + 4);
		p->tsecr = wire_get32(p->opts + 8);
		return;
	}
	/*
	 * Byte by byte, with a count of bytes to skip: the kernel's verifier follows constant
	 * offsets cheaply. The bytes behind opts_len are zero, which ends the list and is no valid
	 * length either.
	 */
#pragma GCC unroll 40
	for (__u32 n = 0; n < WIRE_OPTS_MAX; n++) {
		__u32 kind, len;

		if (skip) {
			skip--;
			continue;
		}
		kind = p->opts[n];
		if (kind == 0)
			return;
		if (kind == 1)
			continue;
		len = p->opts[n + 1];
		if (len < 2 || n + len > p->opts_len) {
			p->bad_option = 1;
			return;
		}
		if (kind == 19 || kind == 29)
			p->auth_option = 1;
		if (kind == 8 && len == 10 && n + 10 <= WIRE_OPTS_MAX) {
			p->ts_count++;
			p->ts_at = p->ts_at << 8 | (n + 2);
			p->tsval = wire_get32(p->opts + n + 2);
			p->tsecr = wire_get32(p->opts + n + 6);
		}
		skip = len - 1;
	}
}

/*
 * Read the packet whose network header starts OFF bytes into SRC.
 *
 * PKT is written whole only for WIRE_TCP; before that parts of it may have changed.
 */
static inline enum wire_status wire_parse(const struct wire_src *src, __u32 off,
					  struct wire_packet *pkt)
{
	struct wire_l4 l4 = { 0 };
	enum wire_status st;
	__u8 h[20], first;
	__u32 doff, opts_len;

	if (wire_load(src, off, &first, 1) < 0)
		return WIRE_BAD;
	__builtin_memset(pkt, 0, sizeof(*pkt));
	if (first >> 4 == 4)
		st = wire_ipv4(src, off, &pkt->tuple, &l4);
	else if (first >> 4 == 6)
		st = wire_ipv6(src, off, &pkt->tuple, &l4);
	else
		return WIRE_OTHER;
	if (st != WIRE_TCP)
		return st;

	if (wire_load(src, l4.off, h, sizeof(h)) < 0)
		return WIRE_BAD;
	doff = (h[12] >> 4) * 4u;
	if (doff < 20 || l4.off + doff > l4.end)
		return WIRE_BAD;
	opts_len = doff - 20;
	if (opts_len && opts_len <= WIRE_OPTS_MAX &&
	    wire_load(src, l4.off + 20, pkt->opts, opts_len) < 0)
		return WIRE_BAD;
	__builtin_memcpy(&pkt->tuple.sport_be, h, 2);
	__builtin_memcpy(&pkt->tuple.dport_be, h + 2, 2);
	pkt->tcp_off = l4.off;
	pkt->seq = wire_get32(h + 4);
	pkt->ack = wire_get32(h + 8);
	pkt->flags = wire_get16(h + 12) & 0xfff;
	pkt->opts_len = (__u8)opts_len;
	wire_options(pkt);
	return WIRE_TCP;
}
