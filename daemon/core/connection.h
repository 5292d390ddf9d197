/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connection.h - what a connection's packets do to its record: a SYN claims it, segments move
 * `last` on, answers and ends are noted.
 *
 * Freestanding: the BPF programs run this text on records in a map, which several processors change
 * at the same time; the queue datapath on records that it has locked. Whoever includes it says
 * first how something is counted:
 *
 *	static void count(struct counting *to, __u32 which);
 */
#pragma once

#include <linux/types.h>
#include "counters.h"
#include "decide.h"
#include "record.h"
#include "tsclock.h"
#include "wire.h"

#define CONNECTION_INLINE static inline __attribute__((always_inline, unused))

/* Set and clear flags of a record's state at once. Returns the state before. */
CONNECTION_INLINE __u32 state_change(struct record *r, __u32 set, __u32 clear)
{
	__u32 old = r->state;

	if ((old & set) != set)
		old = __sync_fetch_and_or(&r->state, set);
	if (old & clear)
		old = __sync_fetch_and_and(&r->state, ~clear);
	return old;
}

CONNECTION_INLINE void shift_ended(struct counting *to, struct record *r)
{
	if (r->state & RECORD_LIVE && __sync_fetch_and_and(&r->state, ~RECORD_LIVE) & RECORD_LIVE)
		count(to, COUNTER_SHIFTS_ENDED);
}

CONNECTION_INLINE void shift_goes_on(struct counting *to, struct record *r)
{
	if (!(r->state & RECORD_LIVE) &&
	    !(__sync_fetch_and_or(&r->state, RECORD_LIVE) & RECORD_LIVE))
		count(to, COUNTER_SHIFTS_STARTED);
}

/* A write per packet would move the record's cache line between processors for nothing. */
CONNECTION_INLINE void seen(struct record *r, __u32 now)
{
	if (now - r->seen_ms > 16)
		r->seen_ms = now;
}

CONNECTION_INLINE void destination_advance(struct destination *d, __u32 tsval, __u32 now)
{
	for (int i = 0; d && i < 4; i++) {
		__u64 old = d->high;
		__u64 new = tsclock_advance(old, tsval, now);

		if (new == old || __sync_val_compare_and_swap(&d->high, old, new) == old)
			return;
	}
}

/*
 * Take the record for a new connection: no flag of the old one is left, and the sweeper, which
 * removes only the generation that it judged, cannot remove this one. The order matters: seen_ms
 * first, then the claim.
 *
 * Returns 0, or -1 when the sweeper was first: then the record was beyond its time, and its tuple
 * needs no shift.
 */
CONNECTION_INLINE int claim(struct record *r, __u32 now, __u32 flags)
{
	r->seen_ms = now;
	for (int i = 0; i < 4; i++) {
		__u32 old = r->state;
		__u32 new = ((old & ~RECORD_FLAGS) + RECORD_GENERATION) | (old & RECORD_LIVE) |
			    flags;

		if (old & RECORD_DEAD)
			return -1;
		if (__sync_val_compare_and_swap(&r->state, old, new) == old)
			return 0;
	}
	return -1;
}

CONNECTION_INLINE void count_pass(struct counting *to, enum pass_reason why)
{
	count(to, why == PASS_NO_TIMESTAMP     ? COUNTER_PASSED_NO_TIMESTAMP
		  : why == PASS_ZERO_TIMESTAMP ? COUNTER_PASSED_ZERO_TIMESTAMP
		  : why == PASS_AUTH_OPTION    ? COUNTER_PASSED_AUTH_OPTION
					       : COUNTER_PASSED_BAD_OPTION);
	count(to, COUNTER_SYN_PASSED);
}

/*
 * A SYN that must leave untouched: its connection has no shift. What the server may hold for the
 * tuple stays known. R may be NULL.
 */
CONNECTION_INLINE void connection_pass_syn(struct counting *to, struct record *r,
					   const struct wire_packet *pkt, enum pass_reason why,
					   __u32 now, __u32 hold_ms)
{
	__u32 base = 0, flags;

	count_pass(to, why);
	if (!r)
		return;
	flags = decide_next_base(r, now, hold_ms, &base) ? RECORD_BASE : 0;
	if (why == PASS_ZERO_TIMESTAMP)
		flags |= RECORD_NO_LAST; /* its later TSvals may come from any clock */
	if (claim(r, now, flags) < 0)
		return;
	r->base = base;
	r->shift = 0;
	r->isn = pkt->seq;
	r->syn_tsval = pkt->tsval;
	r->syn_ms = now;
	shift_ended(to, r);
}

/*
 * The record of a tuple that had none, for the connection that this SYN begins. INSIDE may be NULL.
 */
CONNECTION_INLINE void connection_first(struct record *ret, const struct wire_packet *pkt,
					const struct inside *inside, __u32 shift, __u32 now)
{
	const struct record new = {
		.last = RECORD_LAST(pkt->tsval + shift, now),
		.state = shift ? RECORD_LIVE : 0,
		.shift = shift,
		.isn = pkt->seq,
		.syn_tsval = pkt->tsval + shift,
		.seen_ms = now,
		.syn_ms = now,
	};

	*ret = new;
	if (inside)
		ret->inside = *inside;
}

/*
 * The tuple's record goes over to the connection that this SYN begins. Returns 0, or -1 as claim()
 * does. INSIDE may be NULL.
 */
CONNECTION_INLINE int connection_next(struct counting *to, struct record *r,
				      const struct wire_packet *pkt, const struct inside *inside,
				      __u32 shift, __u32 now, __u32 hold_ms)
{
	__u32 tsval = pkt->tsval + shift, base = 0;
	int has_base = decide_next_base(r, now, hold_ms, &base);

	if (claim(r, now, has_base ? RECORD_BASE : 0) < 0)
		return -1;
	r->base = base;
	r->shift = shift;
	r->isn = pkt->seq;
	r->syn_tsval = tsval;
	r->syn_ms = now;
	r->last = RECORD_LAST(tsval, now);
	if (inside)
		r->inside = *inside;
	else
		__builtin_memset(&r->inside, 0, sizeof(r->inside));
	if (shift)
		shift_goes_on(to, r);
	else
		shift_ended(to, r);
	return 0;
}

/* Returns 1 when the TSval moved the record's last, or at least not too far ahead of it. */
CONNECTION_INLINE int advance_last(struct counting *to, struct record *r, __u32 tsval, __u32 now)
{
	for (int i = 0; i < 4; i++) {
		__u64 old = r->last;
		__u64 new;

		if (r->state & RECORD_NO_LAST) {
			new = RECORD_LAST(tsval, now);
		} else {
			new = record_advance(old, tsval, now);
			if (new == old) {
				if (!ts_after(tsval, RECORD_LAST_TSVAL(old)))
					return 1;
				count(to, COUNTER_WILD_TSVALS);
				return 0;
			}
		}
		if (__sync_val_compare_and_swap(&r->last, old, new) == old) {
			state_change(r, 0, RECORD_NO_LAST);
			return 1;
		}
	}
	return 0;
}

/* The SYN that claimed the record is sent again. */
CONNECTION_INLINE void connection_syn_again(struct counting *to, struct record *r,
					    const struct wire_packet *pkt, __u32 now)
{
	count(to, COUNTER_SYN_RETRANSMITTED);
	seen(r, now);
	advance_last(to, r, pkt->tsval + r->shift, now);
	/* the connection goes on if a sweep or a reset had written it off */
	if (r->shift)
		shift_goes_on(to, r);
}

/*
 * A segment to the server. Returns 1 when its TSval, which a shift of SHIFT was added to, is to be
 * believed: then the destination's clock goes along.
 */
CONNECTION_INLINE int connection_out(struct counting *to, struct record *r,
				     const struct wire_packet *pkt, __u32 shift, __u32 now)
{
	const __u32 fins = RECORD_FIN_OUT | RECORD_FIN_IN;
	int believed;

	seen(r, now);
	/* what is signed leaves as it came */
	believed = pkt->ts_count &&
		   advance_last(to, r, pkt->tsval + (pkt->auth_option ? 0 : shift), now);
	if (pkt->bad_option && shift)
		count(to, COUNTER_PASSED_BAD_OPTION);
	if (pkt->flags & WIRE_RST) {
		state_change(r, RECORD_RESET, 0);
		shift_ended(to, r);
		return believed;
	}
	if (pkt->flags & WIRE_FIN) {
		if (state_change(r, RECORD_FIN_OUT | RECORD_ESTABLISHED, 0) & RECORD_FIN_IN)
			shift_ended(to, r);
	} else {
		state_change(r, r->state & RECORD_ANSWERED ? RECORD_ESTABLISHED : 0, 0);
	}
	if (r->state & RECORD_RESET) {
		/* the client goes on: the reset was not for it, or not believed */
		state_change(r, 0, RECORD_RESET);
		if (shift && (r->state & fins) != fins)
			shift_goes_on(to, r);
	}
	return believed;
}

/*
 * The answer to a SYN. An ACK without SYN refuses it, and tells the server's last TSval (RFC
 * 7323, 5.3); one that lies below what the SYN carried has another reason, and teaches nothing.
 *
 * Returns 1 when it was refused.
 */
CONNECTION_INLINE int connection_answer(struct counting *to, struct record *r,
					const struct wire_packet *pkt)
{
	if (!(pkt->flags & WIRE_ACK) || pkt->flags & WIRE_RST)
		return 0;
	if (pkt->flags & WIRE_SYN) {
		if (pkt->ack == r->isn + 1)
			state_change(r, RECORD_ANSWERED, 0);
		return 0;
	}
	count(to, COUNTER_CHALLENGE_ACKS);
	if (pkt->ts_count && pkt->tsecr && !ts_after(r->syn_tsval, pkt->tsecr)) {
		r->floor = pkt->tsecr;
		state_change(r, RECORD_FLOOR, 0);
	}
	return 1;
}

/* A segment from the server. Returns 1 when it refused the record's SYN. */
CONNECTION_INLINE int connection_in(struct counting *to, struct record *r,
				    const struct wire_packet *pkt, __u32 now)
{
	int refused = 0;

	seen(r, now);
	if (pkt->bad_option && r->shift)
		count(to, COUNTER_PASSED_BAD_OPTION);
	if (!(r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)))
		refused = connection_answer(to, r, pkt);
	if (pkt->flags & WIRE_RST) {
		state_change(r, RECORD_RESET, 0);
		shift_ended(to, r);
	} else if (pkt->flags & WIRE_FIN) {
		if (state_change(r, RECORD_FIN_IN, 0) & RECORD_FIN_OUT)
			shift_ended(to, r);
	}
	return refused;
}
