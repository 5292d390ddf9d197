/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.h - what is remembered of a tuple, and its layout in the pinned map.
 *
 * Freestanding: compiled into the daemon and into the BPF programs. The layout is an interface
 * between versions of the daemon: RECORD_VERSION changes with it.
 */
#pragma once

#include <linux/types.h>
#include "wire.h"

#define RECORD_VERSION 1

/*
 * bits of record.state; the bits above RECORD_GENERATION count the SYNs the record was claimed by
 */
#define RECORD_ANSWERED (1u << 0) /* the server's SYN-ACK passed */
#define RECORD_ESTABLISHED \
	(1u << 1) /* the client answered it: a SYN with the same ISN is a new connection */
#define RECORD_FIN_OUT (1u << 2)
#define RECORD_FIN_IN (1u << 3)
#define RECORD_RESET (1u << 4)	 /* a RST passed, and no outbound segment since */
#define RECORD_LIVE (1u << 5)	 /* shifted and not yet closed: counted in connections_shifted */
#define RECORD_FLOOR (1u << 6)	 /* floor was learnt from a challenge ACK since the last SYN */
#define RECORD_NO_LAST (1u << 7) /* nothing with a timestamp left yet: the first one sets last */
#define RECORD_DEAD (1u << 8)	 /* the sweeper has it: never claimed again, deleted next */
#define RECORD_BASE \
	(1u << 9) /* base is known: what the server holds if the record's SYN never arrived */
#define RECORD_GENERATION (1u << 12)
#define RECORD_FLAGS (RECORD_GENERATION - 1)

/* The connection before NAT, as conntrack's original direction has it; all zero when not known. */
struct inside {
	__u8 src[16];
	__u8 dst[16];
	__u16 sport_be;
	__u16 dport_be;
};

struct record {
	/* RECORD_LAST(): the highest TSval that really left, and when (boot clock, ms) */
	__u64 last;
	__u32 state;	 /* atomic */
	__u32 shift;	 /* added to TSval outbound, taken from TSecr inbound; 0: byte-identical */
	__u32 isn;	 /* of the SYN that claimed the record; host order */
	__u32 syn_tsval; /* as the SYN left */
	__u32 floor;   /* the server's last TSval, from a challenge ACK; valid with RECORD_FLOOR */
	__u32 seen_ms; /* the last packet either way; boot clock */
	__u32 syn_ms;  /* when the SYN left; boot clock */
	__u32 seq_shift; /* room for a second constant: sequence numbers. Always 0 */
	struct inside inside;
	__u32 base; /* last before the first SYN that is unanswered yet; valid with RECORD_BASE */
};

/* The two halves of record.last change together, by one compare-and-swap. */
#define RECORD_LAST(tsval, ms) ((__u64)(tsval) << 32 | (__u32)(ms))
#define RECORD_LAST_TSVAL(last) ((__u32)((last) >> 32))
#define RECORD_LAST_MS(last) ((__u32)(last))

/*
 * How far `last` may move in ELAPSED_MS: as far as the fastest clock in the field, 1 MHz, plus its
 * drift and the time a segment may spend in a queue. A wild TSval beyond that is not believed, so
 * it cannot poison the record.
 */
static inline __u32 record_max_advance(__u32 elapsed_ms)
{
	__u64 n = (__u64)elapsed_ms * 1063 + 2000000;

	return n < 0x7fffffff ? (__u32)n : 0x7fffffff;
}

/*
 * What LAST becomes when TSVAL leaves at NOW_MS; the same value when it does not move.
 */
static inline __u64 record_advance(__u64 last, __u32 tsval, __u32 now_ms)
{
	__s32 d = (__s32)(tsval - (__u32)(last >> 32));
	__s32 elapsed = (__s32)(now_ms - (__u32)last);

	if (d <= 0 || (__u32)d > record_max_advance(elapsed > 0 ? (__u32)elapsed : 0))
		return last;
	return RECORD_LAST(tsval, now_ms);
}

/* Silence that an open connection may keep: as long as conntrack's own time-out for it (5 days). */
#define RECORD_SHIFTED_MS 432000000u
/* An open connection without shift needs its record only for the floor when it ends. */
#define RECORD_UNSHIFTED_MS 3600000u

/* Was the connection answered, and not closed since? */
static inline int record_is_open(const struct record *r)
{
	const __u32 fins = RECORD_FIN_OUT | RECORD_FIN_IN;

	return (r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)) && !(r->state & RECORD_RESET) &&
	       (r->state & fins) != fins;
}

/* After how much silence the record may go, unless conntrack is asked. */
static inline __u32 record_limit_ms(const struct record *r, __u32 hold_ms)
{
	__u32 open_ms;

	if (!record_is_open(r))
		return hold_ms;
	open_ms = r->shift ? RECORD_SHIFTED_MS : RECORD_UNSHIFTED_MS;
	return open_ms > hold_ms ? open_ms : hold_ms;
}

/* The daemon's decision about a SYN, waiting for that SYN to leave. */
struct proposal {
	__u32 isn; /* host order */
	__u32 shift;
	__u32 at_ms; /* boot clock */
	__u32 reserved;
	struct inside inside;
	__u32 reserved2;
};

/* A proposal whose SYN did not leave within this time belongs to a SYN that was dropped. */
#define PROPOSAL_MS 5000
