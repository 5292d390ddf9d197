/* SPDX-License-Identifier: GPL-2.0-or-later */
/* decide-path.h - a tuple of the gateway on simulated time, for the tests of the decision. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/decide.h"
#include "core/edits.h"

#define HOLD 300000u
#define START 1000000u /* ms of the boot clock */

/*
 * A tuple's record, and what the datapath does to it when packets pass.
 */
struct path {
	struct record r;
	bool known; /* there is a record */
	enum policy policy;
	uint32_t clock; /* of the destination, for POLICY_UNIFY */
	uint32_t hold;
};

/* What a SYN was when it left. */
struct left {
	enum decision_kind kind;
	uint32_t shift;
	uint32_t tsval;
};

static inline struct path new_path(void)
{
	return (struct path){ .policy = POLICY_REPAIR, .hold = HOLD };
}

static inline struct decide_input input(const struct path *p, uint32_t isn, uint32_t tsval,
					uint32_t now)
{
	return (struct decide_input){
		.isn = isn,
		.tsval = tsval,
		.now_ms = now,
		.hold_ms = p->hold,
		.policy = p->policy,
		.clock = p->clock,
	};
}

static inline struct left syn(struct path *p, uint32_t isn, uint32_t tsval, uint32_t now)
{
	struct decide_input in = input(p, isn, tsval, now);
	struct decision d = decide(p->known ? &p->r : NULL, &in);
	struct left l = { .kind = d.kind, .shift = d.shift, .tsval = tsval + d.shift };
	uint32_t base = 0;
	bool has_base;

	if (d.kind == DECISION_RETRANSMIT) {
		p->r.last = record_advance(p->r.last, l.tsval, now);
		p->r.seen_ms = now;
		return l;
	}
	has_base = decide_next_base(p->known ? &p->r : NULL, now, p->hold, &base);
	p->r = (struct record){
		.last = RECORD_LAST(l.tsval, now),
		.state = has_base ? RECORD_BASE : 0,
		.base = base,
		.shift = l.shift,
		.isn = isn,
		.syn_tsval = l.tsval,
		.seen_ms = now,
		.syn_ms = now,
	};
	p->known = true;
	return l;
}

/* An outbound segment; returns its TSval as it left. */
static inline uint32_t segment(struct path *p, uint32_t tsval, uint32_t now)
{
	p->r.last = record_advance(p->r.last, tsval + p->r.shift, now);
	p->r.seen_ms = now;
	p->r.state &= ~RECORD_RESET;
	if (p->r.state & RECORD_ANSWERED)
		p->r.state |= RECORD_ESTABLISHED;
	return tsval + p->r.shift;
}

/* The server's SYN-ACK. */
static inline void answer(struct path *p, uint32_t now)
{
	p->r.state |= RECORD_ANSWERED;
	p->r.seen_ms = now;
}

/*
 * The server refused the SYN with an ACK that echoes the last TSval it knows; the client answers
 * with a RST.
 */
static inline void refuse(struct path *p, uint32_t last, uint32_t now)
{
	p->r.seen_ms = now;
	if (!(p->r.state & (RECORD_ANSWERED | RECORD_ESTABLISHED)) &&
	    !ts_after(p->r.syn_tsval, last)) {
		p->r.floor = last;
		p->r.state |= RECORD_FLOOR;
	}
	p->r.state |= RECORD_RESET;
}

static inline void fins(struct path *p, uint32_t now)
{
	p->r.seen_ms = now;
	p->r.state |= RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN;
}

/* A connection whose last segment left with TSval LAST at NOW, closed. */
static inline struct path closed_at(uint32_t last, uint32_t now)
{
	struct path p = new_path();

	syn(&p, 1, last, now);
	answer(&p, now);
	fins(&p, now);
	return p;
}
