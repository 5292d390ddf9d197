/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide.h - the decision: which shift does a SYN get?
 *
 * Pure: a record, the SYN and the time go in. Freestanding: the daemon decides on queued SYNs with
 * it, the egress program decides with it again where the tuple is certain.
 */
#pragma once

#include <linux/types.h>
#include "record.h"
#include "serial.h"
#include "tsclock.h"
#include "wire.h"

enum policy {
	POLICY_REPAIR,
	POLICY_UNIFY,
	POLICY_COUNT,
};

/* The settings of decisions: the administrator chose them, and a reload may change them. */
struct decide_settings {
	enum policy policy;
	__u32 hold_ms;
	struct tsclock clock; /* POLICY_UNIFY */
};

/* Does every SYN to a destination go by one clock, whatever its ports? */
static inline int decide_shares_clock(enum policy policy, enum scope scope)
{
	return policy == POLICY_UNIFY && scope == SCOPE_DESTINATION;
}

enum decision_kind {
	DECISION_NEW,	     /* first SYN of a connection */
	DECISION_RETRANSMIT, /* the same SYN again: it keeps the shift that it has */
};

/* Why a SYN passes untouched: the passed_* counters. */
enum pass_reason {
	PASS_NONE,
	PASS_NO_TIMESTAMP,
	PASS_ZERO_TIMESTAMP,
	PASS_AUTH_OPTION,
	PASS_BAD_OPTION,
};

struct decision {
	enum decision_kind kind;
	__u32 shift;
};

/* The input of a decision besides the record. */
struct decide_input {
	__u32 isn;    /* host order */
	__u32 tsval;  /* as the SYN came from the inside host */
	__u32 now_ms; /* boot clock */
	__u32 hold_ms;
	enum policy policy;
	/* POLICY_UNIFY: the clock's reading now */
	__u32 clock;
	/* POLICY_UNIFY, SCOPE_DESTINATION: a TSval has left for the destination; HIGH is valid */
	int have_high;
	/* the highest TSval that left for the destination; no SYN may step back behind it */
	__u32 high;
};

/*
 * The input for the SYN at NOW_MS (boot clock), without the clock's part, which decide_set_clock()
 * adds for POLICY_UNIFY.
 */
static inline struct decide_input decide_input_of(const struct wire_packet *syn, enum policy policy,
						  __u32 hold_ms, __u32 now_ms)
{
	return (struct decide_input){
		.isn = syn->seq,
		.tsval = syn->tsval,
		.now_ms = now_ms,
		.hold_ms = hold_ms,
		.policy = policy,
	};
}

/* Why the SYN's options forbid a shift; PASS_NONE when they allow one. */
static inline enum pass_reason decide_pass_reason(const struct wire_packet *syn)
{
	if (syn->bad_option)
		return PASS_BAD_OPTION;
	if (syn->auth_option)
		return PASS_AUTH_OPTION;
	if (!syn->ts_count)
		return PASS_NO_TIMESTAMP;
	if (!syn->tsval)
		return PASS_ZERO_TIMESTAMP;
	return PASS_NONE;
}

/*
 * May the server still hold the TSval from before the record's SYN? That SYN moved `last`, perhaps
 * by nearly half the range, and may never have arrived. After two such steps forward, a TSval above
 * `last` would lie behind the one that the server holds; so the next SYN has to be above the base,
 * too.
 */
static inline int decide_has_base(const struct record *r)
{
	return r->state & RECORD_BASE &&
	       !(r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FLOOR));
}

/*
 * The floor of the tuple: no TSval that the server can hold is later. It comes from the segments
 * that really left, and from a challenge ACK. A SYN has to leave strictly above it.
 *
 * Returns 1, or 0 without writing RET_FLOOR when the server can hold nothing any more. R may be
 * NULL.
 */
static inline int decide_floor(const struct record *r, __u32 now_ms, __u32 hold_ms,
			       __u32 *ret_floor)
{
	__u32 last, floor;
	int know_last;

	if (!r || ms_expired(now_ms, r->seen_ms, hold_ms))
		return 0;
	know_last = !(r->state & RECORD_NO_LAST);
	if (!know_last && !(r->state & RECORD_FLOOR)) {
		if (!decide_has_base(r))
			return 0;
		*ret_floor = r->base;
		return 1;
	}
	last = RECORD_LAST_TSVAL(r->last);
	floor = know_last ? last : r->floor;
	if (r->state & RECORD_FLOOR)
		floor = ts_max(floor, r->floor);
	*ret_floor = floor;
	return 1;
}

/* Is the SYN the one that claimed the record, sent again? R may be NULL. */
static inline int decide_is_retransmit(const struct record *r, const struct decide_input *in)
{
	__u32 tsval;

	if (!r || r->isn != in->isn || r->state & RECORD_RESET)
		return 0;
	if (ms_expired(in->now_ms, r->seen_ms, in->hold_ms))
		return 0;
	tsval = in->tsval + r->shift;
	/*
	 * Once the server has answered, the shift is constant. The ISN alone does not tell: some
	 * clients never change it, and come back with another clock. But a SYN that is sent again
	 * is not older than the first one. After the handshake only a copy that was overtaken can
	 * still come, and such a copy is not younger than the segments that left since.
	 */
	if (r->state & RECORD_ESTABLISHED)
		return !(r->state & (RECORD_FIN_OUT | RECORD_FIN_IN)) &&
		       !ts_after(r->syn_tsval, tsval) &&
		       !ts_after(tsval, RECORD_LAST_TSVAL(r->last));
	if (r->state & RECORD_ANSWERED)
		return !ts_after(r->syn_tsval, tsval);
	/* refused meanwhile: with the shift that it has it would be refused again */
	return !(r->state & RECORD_FLOOR);
}

/*
 * The base that a record has after the next SYN claimed it. Returns 1, or 0 without writing
 * RET_BASE when it has none. R may be NULL.
 */
static inline int decide_next_base(const struct record *r, __u32 now_ms, __u32 hold_ms,
				   __u32 *ret_base)
{
	if (!decide_floor(r, now_ms, hold_ms, ret_base))
		return 0;
	if (decide_has_base(r))
		*ret_base = r->base;
	return 1;
}

/* Is TSVAL strictly above FLOOR, which decide_floor() told for R, and above R's base? */
static inline int decide_clears(const struct record *r, __u32 tsval, __u32 floor)
{
	return ts_after(tsval, floor) && (!decide_has_base(r) || ts_after(tsval, r->base));
}

/* Would the SYN with SHIFT leave strictly above every TSval that the server can hold? */
static inline int decide_is_above(const struct record *r, const struct decide_input *in,
				  __u32 shift)
{
	__u32 floor;

	if (in->tsval + shift == 0)
		return 0;
	if (in->have_high && ts_after(in->high, in->tsval + shift))
		return 0;
	return !decide_floor(r, in->now_ms, in->hold_ms, &floor) ||
	       decide_clears(r, in->tsval + shift, floor);
}

/* Fill in the clock's part of the input. D is the tuple's destination, or NULL if it has none. */
static inline __attribute__((always_inline)) void decide_set_clock(struct decide_input *in,
								   const struct tsclock *c,
								   const struct tuple *t,
								   const struct destination *d)
{
	__u64 high = d && c->scope == SCOPE_DESTINATION ? d->high : 0;

	in->clock = tsclock_destination(high, tsclock_keyed(c, t, in->now_ms), in->now_ms);
	in->have_high = high != 0;
	in->high = RECORD_LAST_TSVAL(high);
}

/*
 * Decide on a SYN that decide_pass_reason() lets through. R is the tuple's record, or NULL.
 */
static inline struct decision decide(const struct record *r, const struct decide_input *in)
{
	struct decision d = { .kind = DECISION_NEW, .shift = 0 };
	__u32 floor = 0, target = in->tsval;
	int have_floor;

	if (decide_is_retransmit(r, in)) {
		d.kind = DECISION_RETRANSMIT;
		d.shift = r->shift;
		return d;
	}
	have_floor = decide_floor(r, in->now_ms, in->hold_ms, &floor);
	if (in->policy == POLICY_UNIFY)
		target = in->clock;
	if (have_floor && !decide_clears(r, target, floor)) {
		__u32 ms = ms_elapsed(in->now_ms, RECORD_LAST_MS(r->last));

		if (decide_has_base(r)) {
			/* the least step: half the range above the base ends somewhere here */
			floor = ts_max(floor, r->base);
			ms = 1;
		}
		target = floor + (ms ? ms : 1);
	}
	if (target == 0)
		target = 1; /* TSval 0 on a SYN means "no timestamps" to some servers */
	d.shift = target - in->tsval;
	return d;
}
