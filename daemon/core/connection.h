/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * connection.h - a connection's packets change its record: a SYN claims it, segments move `last`
 * on, answers and ends are noted.
 *
 * Freestanding: the BPF programs run this text on records in a map, which several processors change
 * at the same time; the queue datapath runs it on records that it has locked. The including file
 * defines first how something is counted:
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

/* Set and clear flags of a record's state. Returns the state before. */
CONNECTION_INLINE __u32 connection_change_state(struct record *r, __u32 set, __u32 clear)
{
	__u32 old = r->state;

	if ((old & set) != set)
		old = __sync_fetch_and_or(&r->state, set);
	if (old & clear)
		old = __sync_fetch_and_and(&r->state, ~clear);
	return old;
}

/* The shifted connection is closed: it does not count as open any more. */
CONNECTION_INLINE void connection_end_shift(struct counting *to, struct record *r)
{
	if (r->state & RECORD_LIVE && __sync_fetch_and_and(&r->state, ~RECORD_LIVE) & RECORD_LIVE)
		count(to, COUNTER_SHIFTS_ENDED);
}

/* The shifted connection is open, or open again. */
CONNECTION_INLINE void connection_resume_shift(struct counting *to, struct record *r)
{
	if (!(r->state & RECORD_LIVE) &&
	    !(__sync_fetch_and_or(&r->state, RECORD_LIVE) & RECORD_LIVE))
		count(to, COUNTER_SHIFTS_STARTED);
}

/*
 * Note that a packet was seen. Not for each one: a write per packet would move the record's cache
 * line between processors.
 */
CONNECTION_INLINE void connection_touch(struct record *r, __u32 now)
{
	if (now - r->seen_ms > 16)
		r->seen_ms = now;
}

/* TSVAL left for the destination D, which may be NULL: its clock goes along. */
CONNECTION_INLINE void connection_advance_destination(struct destination *d, __u32 tsval, __u32 now)
{
	for (int i = 0; d && i < 4; i++) {
		__u64 old = d->high;
		__u64 new = tsclock_advance(old, tsval, now);

		if (new == old || __sync_val_compare_and_swap(&d->high, old, new) == old)
			return;
	}
}

/*
 * Claim the record for a new connection. No flag of the old connection stays. The sweeper removes
 * only the generation that it judged, so it cannot remove the new one. seen_ms must be written
 * before the claim: the sweeper reads them in the other order.
 *
 * Returns 0, or -1 when the sweeper was first: then the record had expired, and its tuple needs no
 * shift.
 */
CONNECTION_INLINE int connection_claim(struct record *r, __u32 now, __u32 flags)
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

CONNECTION_INLINE void connection_count_pass(struct counting *to, enum pass_reason why)
{
	switch (why) {
	case PASS_NONE:
		break;
	case PASS_NO_TIMESTAMP:
		count(to, COUNTER_PASSED_NO_TIMESTAMP);
		break;
	case PASS_ZERO_TIMESTAMP:
		count(to, COUNTER_PASSED_ZERO_TIMESTAMP);
		break;
	case PASS_AUTH_OPTION:
		count(to, COUNTER_PASSED_AUTH_OPTION);
		break;
	case PASS_BAD_OPTION:
		count(to, COUNTER_PASSED_BAD_OPTION);
		break;
	}
	count(to, COUNTER_SYN_PASSED);
}

/*
 * A SYN leaves untouched, for the reason WHY: its connection has no shift. The record goes on to
 * know what the server may hold for the tuple. R may be NULL.
 */
CONNECTION_INLINE void connection_pass_syn(struct counting *to, struct record *r,
					   const struct wire_packet *pkt, enum pass_reason why,
					   __u32 now, __u32 hold_ms)
{
	__u32 base = 0, flags;

	connection_count_pass(to, why);
	if (!r)
		return;
	flags = decide_next_base(r, now, hold_ms, &base) ? RECORD_BASE : 0;
	if (why == PASS_ZERO_TIMESTAMP)
		flags |= RECORD_NO_LAST; /* its later TSvals may come from any clock */
	if (connection_claim(r, now, flags) < 0)
		return;
	r->base = base;
	r->shift = 0;
	r->isn = pkt->seq;
	r->syn_tsval = pkt->tsval;
	r->syn_ms = now;
	connection_end_shift(to, r);
}

/*
 * Fill in the record of a tuple that had none, for the connection that the SYN PKT begins. INSIDE
 * may be NULL.
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
 * The tuple's record goes over to the connection that the SYN PKT begins. INSIDE may be NULL.
 * Returns 0, or -1 as connection_claim() does.
 */
CONNECTION_INLINE int connection_next(struct counting *to, struct record *r,
				      const struct wire_packet *pkt, const struct inside *inside,
				      __u32 shift, __u32 now, __u32 hold_ms)
{
	__u32 tsval = pkt->tsval + shift, base = 0;
	int has_base = decide_next_base(r, now, hold_ms, &base);

	if (connection_claim(r, now, has_base ? RECORD_BASE : 0) < 0)
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
		connection_resume_shift(to, r);
	else
		connection_end_shift(to, r);
	return 0;
}

/* TSVAL left. Returns 1 unless it is too far ahead of the record's last to be believed. */
CONNECTION_INLINE int connection_advance_last(struct counting *to, struct record *r, __u32 tsval,
					      __u32 now)
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
			connection_change_state(r, 0, RECORD_NO_LAST);
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
	connection_touch(r, now);
	connection_advance_last(to, r, pkt->tsval + r->shift, now);
	/* a reset may have counted the connection as closed: it goes on */
	if (r->shift)
		connection_resume_shift(to, r);
}

/*
 * A segment leaves for the server; SHIFT was added to its TSval. Returns 1 when that TSval is to be
 * believed: then the destination's clock goes along.
 */
CONNECTION_INLINE int connection_out(struct counting *to, struct record *r,
				     const struct wire_packet *pkt, __u32 shift, __u32 now)
{
	const __u32 fins = RECORD_FIN_OUT | RECORD_FIN_IN;
	int believed;

	connection_touch(r, now);
	/* a signed segment leaves as it came */
	believed = pkt->ts_count &&
		   connection_advance_last(to, r, pkt->tsval + (pkt->auth_option ? 0 : shift), now);
	if (pkt->bad_option && shift)
		count(to, COUNTER_PASSED_BAD_OPTION);
	if (pkt->flags & WIRE_RST) {
		connection_change_state(r, RECORD_RESET, 0);
		connection_end_shift(to, r);
		return believed;
	}
	if (pkt->flags & WIRE_FIN) {
		if (connection_change_state(r, RECORD_FIN_OUT | RECORD_ESTABLISHED, 0) &
		    RECORD_FIN_IN)
			connection_end_shift(to, r);
	} else {
		connection_change_state(r, r->state & RECORD_ANSWERED ? RECORD_ESTABLISHED : 0, 0);
	}
	if (r->state & RECORD_RESET) {
		/* the client goes on: it did not get the reset, or did not believe it */
		connection_change_state(r, 0, RECORD_RESET);
		if (shift && (r->state & fins) != fins)
			connection_resume_shift(to, r);
	}
	return believed;
}

/*
 * The server answers a SYN. An ACK without SYN refuses it, and echoes the server's last TSval (RFC
 * 7323, 5.3). If that is below the SYN's own TSval, the server refused for another reason: nothing
 * is learnt.
 *
 * Returns 1 when the SYN was refused.
 */
CONNECTION_INLINE int connection_answer(struct counting *to, struct record *r,
					const struct wire_packet *pkt)
{
	if (!(pkt->flags & WIRE_ACK) || pkt->flags & WIRE_RST)
		return 0;
	if (pkt->flags & WIRE_SYN) {
		if (pkt->ack == r->isn + 1)
			connection_change_state(r, RECORD_ANSWERED, 0);
		return 0;
	}
	count(to, COUNTER_CHALLENGE_ACKS);
	if (pkt->ts_count && pkt->tsecr && !ts_after(r->syn_tsval, pkt->tsecr)) {
		r->floor = pkt->tsecr;
		connection_change_state(r, RECORD_FLOOR, 0);
	}
	return 1;
}

/* A segment comes from the server. Returns 1 when it refused the record's SYN. */
CONNECTION_INLINE int connection_in(struct counting *to, struct record *r,
				    const struct wire_packet *pkt, __u32 now)
{
	int refused = 0;

	connection_touch(r, now);
	if (pkt->bad_option && r->shift)
		count(to, COUNTER_PASSED_BAD_OPTION);
	if (!(r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)))
		refused = connection_answer(to, r, pkt);
	if (pkt->flags & WIRE_RST) {
		connection_change_state(r, RECORD_RESET, 0);
		connection_end_shift(to, r);
	} else if (pkt->flags & WIRE_FIN) {
		if (connection_change_state(r, RECORD_FIN_IN, 0) & RECORD_FIN_OUT)
			connection_end_shift(to, r);
	}
	return refused;
}
