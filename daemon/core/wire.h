/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wire.h - the fields of a packet: IPv4 or IPv6, TCP, and its timestamp options (RFC 7323).
 *
 * Freestanding: compiled into the daemon and into the BPF programs. The parser is in wire_parse.h.
 */
#pragma once

#include <linux/types.h>

#define WIRE_TS_MAX 4	 /* timestamp options that fit into 40 bytes */
#define WIRE_OPTS_MAX 40 /* bytes of TCP options */
#define WIRE_EXT_MAX 8	 /* IPv6 extension headers looked through */

/* TCP flags as the 12 bits beside the data offset: AE, CWR, ECE, URG, ACK, PSH, RST, SYN, FIN */
#define WIRE_FIN 0x01
#define WIRE_SYN 0x02
#define WIRE_RST 0x04
#define WIRE_ACK 0x10

enum wire_status {
	WIRE_TCP,   /* a TCP header was found and read */
	WIRE_OTHER, /* not TCP, or a later fragment */
	WIRE_BAD,   /* cut short or with impossible lengths */
};

/*
 * One direction of a connection. The key of a record is the connection as the server sees it: the
 * external address and port, then the destination's. An IPv4 address is written as ::ffff:a.b.c.d.
 * There is no padding.
 */
struct tuple {
	__u8 src[16];
	__u8 dst[16];
	__u16 sport_be;
	__u16 dport_be;
};

struct wire_packet {
	struct tuple tuple; /* as on the wire: src is the sender */
	__u32 tcp_off;	    /* where the TCP header starts, from the packet's first byte */
	__u32 seq;	    /* host order */
	__u32 ack;	    /* host order */
	__u32 tsval;	    /* of the last timestamp option, the one that counts; host order */
	__u32 tsecr;
	/* a byte per timestamp option, the last one lowest: where TSval starts in opts */
	__u32 ts_at;
	__u16 flags;
	__u8 ts_count;
	__u8 bad_option;  /* the walk over the options stopped at a malformed one */
	__u8 auth_option; /* MD5 (kind 19) or TCP-AO (kind 29) signs the header */
	__u8 opts_len;
	__u8 opts[WIRE_OPTS_MAX + 4]; /* the bytes themselves, zero behind opts_len */
};

static inline __u16 wire_get16(const __u8 *p)
{
	return (__u16)(p[0] << 8 | p[1]);
}

static inline __u32 wire_get32(const __u8 *p)
{
	return (__u32)p[0] << 24 | (__u32)p[1] << 16 | (__u32)p[2] << 8 | p[3];
}

static inline void wire_put32(__u8 *p, __u32 v)
{
	p[0] = (__u8)(v >> 24);
	p[1] = (__u8)(v >> 16);
	p[2] = (__u8)(v >> 8);
	p[3] = (__u8)v;
}

/* The tuple as the other side names it. */
static inline void tuple_reverse(struct tuple *to, const struct tuple *from)
{
	__builtin_memcpy(to->src, from->dst, 16);
	__builtin_memcpy(to->dst, from->src, 16);
	to->sport_be = from->dport_be;
	to->dport_be = from->sport_be;
}

static inline void wire_map4(__u8 to[16], const __u8 *from)
{
	__builtin_memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, from, 4);
}

/* Is it a connection's first segment? ECN and AccECN set flags of their own on it. */
static inline int wire_is_syn(const struct wire_packet *pkt)
{
	return (pkt->flags & (WIRE_FIN | WIRE_SYN | WIRE_RST | WIRE_ACK)) == WIRE_SYN;
}
