/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * record.h - the record of a tuple, and its layout in the pinned map.
 *
 * Freestanding: compiled into the daemon and into the BPF programs. The layout is an interface
 * between versions of the daemon: RECORD_VERSION changes with it.
 */
#pragma once

#include <linux/types.h>
#include "wire.h"

#define RECORD_VERSION 1

/* Flags of record.state. */

/* The server's SYN-ACK passed. */
#define RECORD_ANSWERED (1u << 0)
/* The client answered the SYN-ACK: a SYN with the same ISN begins a new connection. */
#define RECORD_ESTABLISHED (1u << 1)
#define RECORD_FIN_OUT (1u << 2)
#define RECORD_FIN_IN (1u << 3)
/* A RST passed, and no outbound segment since. */
#define RECORD_RESET (1u << 4)
/* The connection is shifted and not closed: it counts in connections_shifted. */
#define RECORD_LIVE (1u << 5)
/* The floor was learnt from a challenge ACK since the last SYN. */
#define RECORD_FLOOR (1u << 6)
/* No segment with a timestamp has left: the first one sets `last`, wherever it is. */
#define RECORD_NO_LAST (1u << 7)
/* The sweeper deletes the record next: no SYN may claim it any more. */
#define RECORD_DEAD (1u << 8)
/* `base` is known. */
#define RECORD_BASE (1u << 9)
/* From this bit on, record.state counts the SYNs that claimed the record. */
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
	/* RECORD_ANSWERED ... RECORD_GENERATION; changed by atomic operations */
	__u32 state;
	/* added to TSval outbound, taken from TSecr inbound; 0: segments stay byte-identical */
	__u32 shift;
	/* initial sequence number of the SYN that claimed the record; host order */
	__u32 isn;
	/* TSval of that SYN as it left */
	__u32 syn_tsval;
	/* the server's last TSval, from a challenge ACK; valid with RECORD_FLOOR */
	__u32 floor;
	/* when the last packet passed, either way (boot clock, ms) */
	__u32 seen_ms;
	/* when the SYN left (boot clock, ms) */
	__u32 syn_ms;
	/* room for the second constant, of sequence numbers; always 0 */
	__u32 seq_shift;
	struct inside inside;
	/*
	 * valid with RECORD_BASE: the TSval that the server holds if no SYN arrived since its last
	 * answer
	 */
	__u32 base;
};

/* The two halves of record.last change together, by one compare-and-swap. */
#define RECORD_LAST(tsval, ms) ((__u64)(tsval) << 32 | (__u32)(ms))
#define RECORD_LAST_TSVAL(last) ((__u32)((last) >> 32))
#define RECORD_LAST_MS(last) ((__u32)(last))

/*
 * How far `last` may move in ELAPSED_MS: as far as the fastest clock in the field, 1 MHz, plus its
 * drift and the time that a segment may spend in a queue. A TSval beyond that is not believed, so
 * that a wild one cannot poison the record.
 */
static inline __u32 record_max_advance(__u32 elapsed_ms)
{
	__u64 n = (__u64)elapsed_ms * 1063 + 2000000;

	return n < 0x7fffffff ? (__u32)n : 0x7fffffff;
}

/* Returns the new `last` when TSVAL leaves at NOW_MS: LAST itself when it does not move. */
static inline __u64 record_advance(__u64 last, __u32 tsval, __u32 now_ms)
{
	__s32 d = (__s32)(tsval - (__u32)(last >> 32));
	__s32 elapsed = (__s32)(now_ms - (__u32)last);

	if (d <= 0 || (__u32)d > record_max_advance(elapsed > 0 ? (__u32)elapsed : 0))
		return last;
	return RECORD_LAST(tsval, now_ms);
}

/* An open connection may be silent for as long as conntrack would keep its entry: 5 days. */
#define RECORD_SHIFTED_MS 432000000u
/* An open connection without shift needs its record only for the floor when it ends. */
#define RECORD_UNSHIFTED_MS 3600000u

/* Was the connection answered, and not closed since then? */
static inline int record_is_open(const struct record *r)
{
	const __u32 fins = RECORD_FIN_OUT | RECORD_FIN_IN;

	return (r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)) && !(r->state & RECORD_RESET) &&
	       (r->state & fins) != fins;
}

/* Milliseconds of silence after which the record may go, unless conntrack is asked. */
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

/* If a proposal's SYN has not left after this time (ms), it was dropped on the way. */
#define PROPOSAL_MS 5000
