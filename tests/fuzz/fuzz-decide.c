// SPDX-License-Identifier: GPL-2.0-or-later
/* Any record, any SYN, any time: the properties of every decision. */
#include <stdint.h>
#include <string.h>

#include "core/decide.h"

#define MUST(x)                           \
	do {                              \
		if (!(x))                 \
			__builtin_trap(); \
	} while (0)

/* Linux's rule for a SYN in TIME_WAIT; half the range ahead is still accepted. */
static int accepted(uint32_t tsval, uint32_t last)
{
	return (int32_t)(last - tsval) < 0;
}

static void check_advance(const struct record *r, uint32_t tsval, uint32_t now_ms)
{
	uint64_t next = record_advance(r->last, tsval, now_ms);
	uint32_t step = RECORD_LAST_TSVAL(next) - RECORD_LAST_TSVAL(r->last);

	if (next == r->last)
		return;
	MUST(RECORD_LAST_TSVAL(next) == tsval && RECORD_LAST_MS(next) == now_ms);
	MUST(step > 0 && step <= 0x7fffffff &&
	     step <= record_max_advance(ms_elapsed(now_ms, RECORD_LAST_MS(r->last))));
}

static void check_new(const struct record *r, const struct decide_input *in, uint32_t shift)
{
	uint32_t floor = 0, target = in->tsval + shift;
	uint32_t wanted = in->policy == POLICY_UNIFY ? in->clock : in->tsval;
	int held = decide_floor(r, in->now_ms, in->hold_ms, &floor);

	MUST(target != 0);
	if (!held || decide_clears(r, wanted, floor)) {
		/* not one bit more than needed */
		MUST(target == (wanted ? wanted : 1));
		return;
	}
	/* nothing, or nothing but 0, is above both of two TSvals that are half the range apart */
	if (decide_has_base(r) && r->base - floor - 0x7fffffff <= 2)
		return;
	MUST(accepted(target, floor));
	if (decide_has_base(r))
		MUST(accepted(target, r->base));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct {
		struct record r;
		struct decide_input in;
	} any = { 0 };
	struct decide_input in;
	struct record r;
	struct decision d, again;

	memcpy(&any, input, size < sizeof(any) ? size : sizeof(any));
	r = any.r;
	in = any.in;
	in.policy = (uint32_t)in.policy & 1 ? POLICY_UNIFY : POLICY_REPAIR;
	in.hold_ms %= 100000000;
	/* random numbers are rarely near enough to each other for the cases that matter */
	if (size & 1)
		in.now_ms = r.seen_ms + in.now_ms % 400000;
	if (size & 2)
		in.isn = r.isn;
	if (size & 4)
		in.tsval = RECORD_LAST_TSVAL(r.last) - 500 + in.tsval % 1000;

	d = decide(&r, &in);
	MUST(d.kind == DECISION_NEW || d.kind == DECISION_RETRANSMIT);
	again = decide(&r, &in);
	MUST(again.kind == d.kind && again.shift == d.shift);
	if (d.kind == DECISION_RETRANSMIT)
		MUST(d.shift == r.shift && in.isn == r.isn && !(r.state & RECORD_RESET));
	else
		check_new(&r, &in, d.shift);
	/* answered: constant for every SYN that cannot be older than the first */
	if (in.isn == r.isn && r.state & RECORD_ANSWERED &&
	    !(r.state & (RECORD_ESTABLISHED | RECORD_RESET)) &&
	    !ms_expired(in.now_ms, r.seen_ms, in.hold_ms) &&
	    !ts_after(r.syn_tsval, in.tsval + r.shift))
		MUST(d.shift == r.shift);
	check_advance(&r, in.tsval, in.now_ms);
	d = decide(NULL, &in);
	MUST(d.kind == DECISION_NEW);
	return 0;
}
