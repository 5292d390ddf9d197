// SPDX-License-Identifier: GPL-2.0-or-later
/* The decision, on simulated time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide-path.h"

#define assert_after(a, b) assert_true((int32_t)((uint32_t)(a) - (uint32_t)(b)) > 0)

/* --- reports from the field --- */

/* A server that closed with a high TSval, and a SYN 200 ms later from a host that booted later. */
static void test_lower_clock(void **state)
{
	struct path p = closed_at(370383870, START);
	struct left l;

	(void)state;
	l = syn(&p, 559739866, 4137539723u, START + 200);
	assert_int_equal(l.kind, DECISION_NEW);
	assert_after(l.tsval, 370383870);
	/* as if the clock had gone on at 1 kHz */
	assert_int_equal(l.tsval, 370383870 + 200);
	assert_int_equal(p.r.shift, l.tsval - 4137539723u);
}

static void test_already_above(void **state)
{
	struct path p = closed_at(370383870, START);

	(void)state;
	assert_int_equal(syn(&p, 2, 370383871, START + 200).shift, 0);
	/* the first connection of a tuple */
	p = new_path();
	assert_int_equal(syn(&p, 2, 5, START).shift, 0);
}

static void test_equal(void **state)
{
	struct path p = closed_at(5000, START);

	(void)state;
	assert_int_equal(syn(&p, 2, 5000, START).tsval, 5001);
	p = closed_at(5000, START);
	assert_int_equal(syn(&p, 2, 5000, START + 1).tsval, 5001);
	p = closed_at(5000, START);
	assert_int_equal(syn(&p, 2, 5000, START + 30).tsval, 5030);
}

/* A clock of 2 Hz ticks between none of these connections. */
static void test_2hz(void **state)
{
	struct path p = new_path();
	uint32_t last = syn(&p, 1, 777, START).tsval;

	(void)state;
	for (uint32_t i = 1; i <= 10; i++) {
		struct left l;

		answer(&p, START + 40 * i);
		segment(&p, 777, START + 40 * i);
		fins(&p, START + 40 * i);
		l = syn(&p, 1 + i, 777, START + 40 * i + 10);
		assert_int_equal(l.kind, DECISION_NEW);
		assert_after(l.tsval, last);
		last = l.tsval;
	}
}

static void test_wrap(void **state)
{
	struct path p = closed_at(0xfffffff0, START);

	(void)state;
	assert_int_equal(syn(&p, 2, 0x10, START + 100).shift, 0);
	p = closed_at(0xfffffff0, START);
	assert_int_equal(syn(&p, 2, 0xffffff00, START + 100).tsval, 0xfffffff0 + 100);
	p = closed_at(0x10, START);
	assert_int_equal(syn(&p, 2, 0xfffffff0, START + 100).tsval, 0x10 + 100);
}

static void test_1mhz(void **state)
{
	struct path p = new_path();
	uint32_t t = 4000000000u;
	struct left l;

	(void)state;
	syn(&p, 1, t, START);
	answer(&p, START + 1);
	assert_int_equal(segment(&p, t + 30000000, START + 30000), t + 30000000);
	fins(&p, START + 30000);
	l = syn(&p, 2, 12345, START + 31000);
	assert_after(l.tsval, t + 30000000);
}

/*
 * The record outlives the mapping: who has the inside tuple makes no difference. Here: another
 * host's lower clock.
 */
static void test_times_of_reuse(void **state)
{
	static const uint32_t after_ms[] = { 0, 1, 59000, 61000, 119000, 239000, HOLD };

	(void)state;
	for (size_t i = 0; i < sizeof(after_ms) / sizeof(after_ms[0]); i++) {
		struct path p = closed_at(900000000, START);

		assert_after(syn(&p, 2, 1000, START + after_ms[i]).tsval, 900000000);
	}
}

static void test_hold_boundary(void **state)
{
	(void)state;
	for (uint32_t start = 0; start < 3; start++) {
		/* the stamp itself wraps, too */
		uint32_t now = start == 0 ? START : start == 1 ? 0xffffffff - HOLD : 0xfffffff0;
		struct path p = closed_at(900000000, now);

		assert_int_equal(syn(&p, 2, 1000, now + HOLD).tsval, 900000000 + HOLD);
		p = closed_at(900000000, now);
		assert_int_equal(syn(&p, 2, 1000, now + HOLD + 1).shift, 0);
	}
}

static void test_lost_first_syn(void **state)
{
	struct path p = closed_at(70000, START);
	struct left first, second;
	struct wire_packet syn_ack = { .flags = 0x12, .ts_count = 1, .ts_at = 2, .opts_len = 10 };
	struct edit e;

	(void)state;
	first = syn(&p, 2, 1019, START + 500);
	assert_int_not_equal(first.shift, 0);
	second = syn(&p, 2, 2019, START + 1500);
	assert_int_equal(second.kind, DECISION_RETRANSMIT);
	assert_int_equal(second.shift, first.shift);
	/* the server echoes the second, and the client gets its own TSval back */
	syn_ack.opts[0] = 8;
	syn_ack.opts[1] = 10;
	wire_put32(syn_ack.opts + 6, second.tsval);
	assert_true(edit_timestamp(&syn_ack, 0, DIRECTION_IN, p.r.shift, &e));
	assert_int_equal(e.to, 2019);
}

/* The record is all that a restarted daemon has, and it is enough. */
static void test_restart_between(void **state)
{
	struct path before = closed_at(70000, START), after = new_path();
	struct left first = syn(&before, 2, 1019, START + 500);

	(void)state;
	after.known = true;
	memcpy(&after.r, &before.r, sizeof(after.r));
	assert_int_equal(syn(&after, 2, 2019, START + 1500).shift, first.shift);
}

/* Both were queued before either left; the datapath asks again when each does. */
static void test_reverse_order(void **state)
{
	struct path p = closed_at(70000, START);
	struct left second = syn(&p, 2, 2019, START + 1500), first = syn(&p, 2, 1019, START + 1500);

	(void)state;
	assert_int_equal(first.kind, DECISION_RETRANSMIT);
	assert_int_equal(first.shift, second.shift);
}

static void test_refused_rearms(void **state)
{
	struct path p = closed_at(900000000, START);

	(void)state;
	p.hold = 60000;
	/* a SYN that nobody repaired, refused by a server whose 60 s start again */
	challenge(&p, 900000000, START + 59000);
	assert_int_equal(syn(&p, 2, 1000, START + 119000).tsval, 900000000 + 119000);
	p = closed_at(900000000, START);
	p.hold = 60000;
	assert_int_equal(syn(&p, 2, 1000, START + 60001).shift, 0);
	refuse(&p, 900000000, START + 60050);
	assert_after(syn(&p, 2, 1061, START + 119000).tsval, 900000000);
}

static void test_pass_reasons(void **state)
{
	static const struct {
		uint8_t ts_count, bad, auth;
		uint32_t tsval;
		enum pass_reason why;
	} cases[] = {
		{ 1, 0, 0, 5, PASS_NONE },	   { 4, 0, 0, 1, PASS_NONE },
		{ 0, 0, 0, 0, PASS_NO_TIMESTAMP }, { 1, 0, 0, 0, PASS_ZERO_TIMESTAMP },
		{ 1, 0, 1, 5, PASS_AUTH_OPTION },  { 0, 0, 1, 0, PASS_AUTH_OPTION },
		{ 1, 0, 1, 0, PASS_AUTH_OPTION },  { 1, 1, 0, 5, PASS_BAD_OPTION },
		{ 0, 1, 0, 0, PASS_BAD_OPTION },   { 1, 1, 1, 0, PASS_BAD_OPTION },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wire_packet pkt = { .ts_count = cases[i].ts_count,
					   .bad_option = cases[i].bad,
					   .auth_option = cases[i].auth,
					   .tsval = cases[i].tsval };

		assert_int_equal(decide_pass_reason(&pkt), cases[i].why);
	}
}

/*
 * Somebody injects a segment outside the window: the server drops it, and the record does not
 * believe it.
 */
static void test_poison(void **state)
{
	struct path p = new_path();
	struct left l;

	(void)state;
	syn(&p, 1, 5000, START);
	answer(&p, START + 10);
	segment(&p, 5010, START + 10);
	segment(&p, 5010 + (1u << 30), START + 20);
	assert_int_equal(RECORD_LAST_TSVAL(p.r.last), 5010);
	segment(&p, 5030, START + 30);
	assert_int_equal(RECORD_LAST_TSVAL(p.r.last), 5030);
	fins(&p, START + 30);
	l = syn(&p, 2, 6000, START + 1000);
	assert_int_equal(l.shift, 0);
}

/* Behind another NAT: three clocks on a handful of tuples, ten thousand connections. */
static void test_double_nat(void **state)
{
	static const uint32_t offset[3] = { 7, 3000000000u, 1500000000u },
			      per_s[3] = { 100, 1000, 1000000 };
	struct path p[16];
	uint32_t server[16] = { 0 }, now = START;
	bool used[16] = { false };

	(void)state;
	srandom(15);
	for (int i = 0; i < 16; i++)
		p[i] = new_path();
	for (uint32_t n = 0; n < 10000; n++) {
		int i = (int)(random() % 16), c = (int)(random() % 3);
		uint32_t tsval = offset[c] + (uint32_t)((uint64_t)now * per_s[c] / 1000);
		struct left l = syn(&p[i], 100 + n, tsval, now);

		if (used[i])
			assert_after(l.tsval, server[i]);
		answer(&p[i], now);
		now += (uint32_t)(random() % 30);
		tsval = offset[c] + (uint32_t)((uint64_t)now * per_s[c] / 1000);
		server[i] = segment(&p[i], tsval, now);
		assert_int_equal(server[i] - tsval, l.shift);
		assert_false(ts_after(l.tsval, server[i]));
		fins(&p[i], now);
		used[i] = true;
	}
}

/* --- retransmissions --- */

static void test_retransmission_keeps_shift(void **state)
{
	struct path p = closed_at(70000, START);
	struct left first = syn(&p, 2, 1000, START + 500);

	(void)state;
	/* unanswered: whatever the clock says */
	assert_int_equal(syn(&p, 2, 2000, START + 1500).shift, first.shift);
	assert_int_equal(syn(&p, 2, 2000, START + 3500).shift, first.shift);
	assert_int_equal(syn(&p, 2, 500, START + 7500).shift, first.shift);
	assert_int_equal(syn(&p, 2, 0xfffff000, START + 15500).shift, first.shift);
	/* another ISN is another connection */
	assert_int_equal(syn(&p, 3, 5000, START + 16000).kind, DECISION_NEW);
}

static void test_retransmission_of_unshifted(void **state)
{
	struct path p = new_path();

	(void)state;
	assert_int_equal(syn(&p, 2, 1000, START).kind, DECISION_NEW);
	assert_int_equal(syn(&p, 2, 2000, START + 1000).kind, DECISION_RETRANSMIT);
	answer(&p, START + 1001);
	assert_int_equal(syn(&p, 2, 2000, START + 1002).kind, DECISION_RETRANSMIT);
	assert_int_equal(p.r.shift, 0);
}

static void test_retransmission_too_late(void **state)
{
	struct path p = new_path();

	(void)state;
	syn(&p, 2, 1000, START);
	assert_int_equal(syn(&p, 2, 2000, START + HOLD).kind, DECISION_RETRANSMIT);
	assert_int_equal(syn(&p, 2, 2000, START + HOLD + HOLD + 1).kind, DECISION_NEW);
}

static void test_answered_never_changes(void **state)
{
	struct path p = closed_at(70000, START);
	struct left first = syn(&p, 2, 1000, START + 500);

	(void)state;
	answer(&p, START + 600);
	for (uint32_t ms = 0; ms < 100000; ms += 777)
		assert_int_equal(syn(&p, 2, 1000 + ms, START + 500 + ms).shift, first.shift);
	/* a challenge ACK that comes late teaches nothing, as the server has answered */
	challenge(&p, 80000000, START + 200400);
	assert_false(p.r.state & RECORD_FLOOR);
	assert_int_equal(syn(&p, 2, 200000, START + 200500).shift, first.shift);
	/* nor does one that came just before the answer */
	p.r.floor = 80000000;
	p.r.state |= RECORD_FLOOR;
	assert_int_equal(syn(&p, 2, 200000, START + 200500).shift, first.shift);
}

/* A copy of the SYN that the handshake overtook must not take the open connection's shift away. */
static void test_overtaken_copy(void **state)
{
	struct path p = closed_at(70000, START);
	struct left first = syn(&p, 2, 1000, START + 500), copy;

	(void)state;
	answer(&p, START + 1499);
	segment(&p, 2000, START + 1500);
	copy = syn(&p, 2, 1999, START + 1501);
	assert_int_equal(copy.kind, DECISION_RETRANSMIT);
	assert_int_equal(copy.shift, first.shift);
	copy = syn(&p, 2, 2000, START + 1502);
	assert_int_equal(copy.shift, first.shift);
	assert_true(p.r.state & RECORD_ESTABLISHED);
	/* unshifted connections likewise */
	p = new_path();
	syn(&p, 2, 1000, START);
	answer(&p, START + 999);
	segment(&p, 2000, START + 1000);
	assert_int_equal(syn(&p, 2, 1999, START + 1001).shift, 0);
}

/* Systems without random numbers begin every connection with the same ISN. */
static void test_constant_isn(void **state)
{
	struct path p = new_path();
	struct left l;

	(void)state;
	/* closed and begun again */
	syn(&p, 9, 50000, START);
	answer(&p, START + 1);
	segment(&p, 50100, START + 100);
	fins(&p, START + 100);
	l = syn(&p, 9, 50050, START + 200);
	assert_int_equal(l.kind, DECISION_NEW);
	assert_after(l.tsval, 50100);
	/* rebooted while open: the clock is behind the server's last TSval */
	answer(&p, START + 201);
	segment(&p, 50300, START + 500);
	l = syn(&p, 9, 10, START + 9000);
	assert_int_equal(l.kind, DECISION_NEW);
	assert_after(l.tsval, 50300);
	/* answered, but the client never said anything and comes back with a lower clock */
	answer(&p, START + 9001);
	l = syn(&p, 9, 5, START + 20000);
	assert_int_equal(l.kind, DECISION_NEW);
	assert_after(l.tsval, 50300);
	/* open, and the clock has gone on: no copy of the old SYN can be that young */
	answer(&p, START + 20001);
	segment(&p, 100, START + 20100);
	assert_int_equal(syn(&p, 9, 101, START + 20200).kind, DECISION_NEW);
	/* reset */
	answer(&p, START + 20201);
	client_resets(&p, START + 20250);
	assert_int_equal(syn(&p, 9, 200, START + 20300).kind, DECISION_NEW);
}

/* --- the floor that a challenge ACK teaches --- */

static void test_learnt_floor(void **state)
{
	struct path p = new_path();
	struct left l;

	(void)state;
	/* nothing was known of the tuple, but the server remembers 80000000 */
	l = syn(&p, 2, 1000, START);
	assert_int_equal(l.shift, 0);
	refuse(&p, 80000000, START + 10);
	l = syn(&p, 2, 1012, START + 22);
	assert_int_equal(l.kind, DECISION_NEW);
	assert_after(l.tsval, 80000000);
	/* the shift counts anew, and stays */
	assert_int_equal(syn(&p, 2, 2012, START + 1022).shift, l.shift);
	/* a challenge without the client's RST */
	p = new_path();
	syn(&p, 2, 1000, START);
	challenge(&p, 80000000, START + 10);
	assert_after(syn(&p, 2, 2000, START + 1000).tsval, 80000000);
}

static void test_floor_equal_to_syn(void **state)
{
	struct path p = new_path();

	(void)state;
	syn(&p, 2, 1000, START);
	refuse(&p, 1000, START + 10);
	assert_after(syn(&p, 2, 1000, START + 10).tsval, 1000);
}

/* The higher of the two counts, and the floor alone when nothing left yet. */
static void test_floor_and_last(void **state)
{
	struct record r = { .last = RECORD_LAST(500, START),
			    .seen_ms = START,
			    .state = RECORD_FLOOR,
			    .floor = 400 };
	uint32_t floor = 7;

	(void)state;
	assert_int_equal(decide_floor(&r, START, HOLD, &floor), 1);
	assert_int_equal(floor, 500);
	r.floor = 600;
	assert_int_equal(decide_floor(&r, START, HOLD, &floor), 1);
	assert_int_equal(floor, 600);
	r.last = RECORD_LAST(0x10, START);
	r.floor = 0xfffffff0;
	decide_floor(&r, START, HOLD, &floor);
	assert_int_equal(floor, 0x10);
	r.state = RECORD_FLOOR | RECORD_NO_LAST;
	decide_floor(&r, START, HOLD, &floor);
	assert_int_equal(floor, 0xfffffff0);
	r.state = 0;
	decide_floor(&r, START, HOLD, &floor);
	assert_int_equal(floor, 0x10);
	/* nothing known: the argument stays */
	floor = 7;
	r.state = RECORD_NO_LAST;
	assert_int_equal(decide_floor(&r, START, HOLD, &floor), 0);
	assert_int_equal(decide_floor(NULL, START, HOLD, &floor), 0);
	r.state = RECORD_FLOOR;
	assert_int_equal(decide_floor(&r, START + HOLD + 1, HOLD, &floor), 0);
	assert_int_equal(floor, 7);
}

/* --- numbers --- */

static void test_never_zero(void **state)
{
	(void)state;
	for (uint32_t last = 0xffffff00; last != 0x100; last++) {
		for (uint32_t ms = 0; ms < 300; ms += 13) {
			struct path p = closed_at(last, START);
			struct left l = syn(&p, 2, last - 1000, START + ms);

			assert_int_not_equal(l.tsval, 0);
			assert_after(l.tsval, last);
		}
	}
}

static void test_serial_boundaries(void **state)
{
	static const uint32_t lasts[] = { 1, 2, 5000, 0x7fffffff, 0x80000000, 0xffffffff };

	(void)state;
	for (size_t i = 0; i < sizeof(lasts) / sizeof(lasts[0]); i++) {
		uint32_t last = lasts[i];
		struct path p = closed_at(last, START);
		struct decide_input in = input(&p, 2, last + 0x7fffffff, START + 10);

		assert_true(ts_after(last + 1, last));
		assert_true(ts_after(last + 0x7fffffff, last));
		assert_false(ts_after(last + 0x80000000, last));
		assert_false(ts_after(last + 0x80000001, last));
		assert_false(ts_after(last, last));
		assert_false(ts_after(last - 1, last));
		/* 2^31 - 1 ahead is after; a SYN of TSval 0 is not decided at all */
		if (last + 0x7fffffff != 0) {
			assert_true(decide_is_above(&p.r, &in, 0));
			assert_int_equal(syn(&p, 2, last + 0x7fffffff, START + 10).shift, 0);
		}
		/* 2^31 is neither; a Linux server takes it, but others need not */
		p = closed_at(last, START);
		in.tsval = last + 0x80000000;
		if (in.tsval) {
			assert_false(decide_is_above(&p.r, &in, 0));
			assert_after(syn(&p, 2, in.tsval, START + 10).tsval, last);
		}
		p = closed_at(last, START);
		in.tsval = last + 0x80000001;
		if (in.tsval) {
			assert_false(decide_is_above(&p.r, &in, 0));
			assert_after(syn(&p, 2, in.tsval, START + 10).tsval, last);
		}
	}
	assert_int_equal(ts_max(5, 6), 6);
	assert_int_equal(ts_max(6, 5), 6);
	assert_int_equal(ts_max(0xffffffff, 3), 3);
}

static void test_is_above(void **state)
{
	struct path p = closed_at(5000, START);
	struct decide_input in = input(&p, 2, 100, START + 10);

	(void)state;
	assert_false(decide_is_above(&p.r, &in, 4900));
	assert_true(decide_is_above(&p.r, &in, 4901));
	assert_false(decide_is_above(&p.r, &in, 0));
	/* TSval 0 is no TSval */
	assert_false(decide_is_above(NULL, &in, -100u));
	assert_true(decide_is_above(NULL, &in, 0));
	in.now_ms = START + HOLD + 1;
	assert_true(decide_is_above(&p.r, &in, 0));
	/* under "unify" no SYN may be behind the highest TSval that left for the destination */
	in.have_high = 1;
	in.high = 200;
	assert_false(decide_is_above(&p.r, &in, 99));
	assert_true(decide_is_above(&p.r, &in, 100));
}

/*
 * A SYN that is lost moves the record's last, but not the server's. Three hosts whose clocks are a
 * third of the range apart: a TSval above the second one's is below the first one's again.
 */
static void test_lost_syn_between(void **state)
{
	struct path p = closed_at(0x10000000, START);
	struct left l;

	(void)state;
	l = syn(&p, 2, 0x60000000, START + 100);
	assert_int_equal(l.shift, 0);
	l = syn(&p, 3, 0xb0000000, START + 200);
	assert_after(l.tsval, 0x10000000);
	assert_after(l.tsval, 0x60000000);
	l = syn(&p, 4, 0x0fffffff, START + 300);
	assert_after(l.tsval, 0x10000000);
	assert_after(l.tsval, 0x60000001);
	/* even if the lost one was as far ahead as it could be */
	p = closed_at(0x10000000, START);
	assert_int_equal(syn(&p, 2, 0x8ffffffe, START + 100).shift, 0);
	l = syn(&p, 3, 0xb0000000, START + 90000);
	assert_int_equal(l.tsval, 0x8fffffff);
	/* or a little further, as it was sent again by a clock that went on */
	p = closed_at(0x10000000, START);
	syn(&p, 2, 0x8fffff00, START + 100);
	assert_int_equal(syn(&p, 2, 0x90000100, START + 700).kind, DECISION_RETRANSMIT);
	l = syn(&p, 3, 0xb0000000, START + 900);
	assert_after(l.tsval, 0x10000000);
	assert_after(l.tsval, 0x90000100);
	/* once a SYN was answered, or refused, the server holds that and no more */
	p = closed_at(0x10000000, START);
	syn(&p, 2, 0x60000000, START + 100);
	answer(&p, START + 110);
	assert_int_equal(syn(&p, 3, 0xb0000000, START + 200).shift, 0);
	refuse(&p, 0xb0000100, START + 210);
	assert_int_equal(syn(&p, 4, 0xf0000000, START + 300).shift, 0);
}

static void test_unify(void **state)
{
	struct path p = new_path();

	(void)state;
	p.policy = POLICY_UNIFY;
	p.clock = 123456;
	assert_int_equal(syn(&p, 1, 99, START).tsval, 123456);
	/* retransmission: the shift counts, not the clock */
	p.clock = 124456;
	assert_int_equal(syn(&p, 1, 1099, START + 1000).kind, DECISION_RETRANSMIT);
	answer(&p, START + 1001);
	segment(&p, 1200, START + 1100);
	fins(&p, START + 1100);
	p.clock = 125456;
	assert_int_equal(syn(&p, 2, 4000000000u, START + 2000).tsval, 125456);
	/* a 1 MHz client went past the clock: never below the server's last TSval */
	answer(&p, START + 2000);
	segment(&p, 4000000000u + 1000000, START + 3000);
	fins(&p, START + 3000);
	p.clock = 126456;
	assert_int_equal(syn(&p, 3, 77, START + 3000).tsval, 125456 + 1000000 + 1);
	/* the clock passes 0 */
	p = new_path();
	p.policy = POLICY_UNIFY;
	p.clock = 0;
	assert_int_equal(syn(&p, 1, 99, START).tsval, 1);
}

static void test_milliseconds(void **state)
{
	(void)state;
	assert_int_equal(ms_elapsed(1500, 1000), 500);
	assert_int_equal(ms_elapsed(1000, 1000), 0);
	assert_int_equal(ms_elapsed(1000, 1500), 0);
	assert_int_equal(ms_elapsed(0x10, 0xfffffff0), 0x20);
	assert_int_equal(ms_elapsed(0x7fffffff, 0), 0x7fffffff);
	assert_int_equal(ms_elapsed(0x80000000, 0), 0);
	assert_false(ms_expired(1000 + HOLD, 1000, HOLD));
	assert_true(ms_expired(1001 + HOLD, 1000, HOLD));
	assert_false(ms_expired(HOLD - 0x10, -0x10u, HOLD));
	assert_true(ms_expired(HOLD - 0xf, -0x10u, HOLD));
	/*
	 * a stamp from another processor, or of while the reader of the time was stopped; and one
	 * that is weeks old
	 */
	assert_false(ms_expired(1000, 1001, HOLD));
	assert_false(ms_expired(1000, 1000 + MS_STOPPED, HOLD));
	assert_true(ms_expired(1000, 1001 + MS_STOPPED, HOLD));
	assert_true(ms_expired(0x80000000, 0, HOLD));
}

static void test_record_advance(void **state)
{
	uint64_t last = RECORD_LAST(5000, START);

	(void)state;
	assert_int_equal(RECORD_LAST_TSVAL(last), 5000);
	assert_int_equal(RECORD_LAST_MS(last), START);
	/* forward only; a last that does not move keeps its time */
	assert_true(record_advance(last, 5000, START + 9) == last);
	assert_true(record_advance(last, 4999, START + 9) == last);
	assert_true(record_advance(last, 5000u + 0x80000000, START + 9) == last);
	assert_true(record_advance(last, 5001, START + 9) == RECORD_LAST(5001, START + 9));
	/* by no more than the slack, and 1.063 MHz */
	assert_true(record_advance(last, 5000 + 2000000, START) ==
		    RECORD_LAST(5000 + 2000000, START));
	assert_true(record_advance(last, 5000 + 2000001, START) == last);
	assert_true(record_advance(last, 5000 + 2001063, START + 1) != last);
	assert_true(record_advance(last, 5000 + 2001064, START + 1) == last);
	assert_true(record_advance(last, 5000 + 2001063, START - 1) == last);
	/* over both wraps */
	last = RECORD_LAST(0xfffffff0, 0xfffffff0);
	assert_true(record_advance(last, 0x10, 0x10) == RECORD_LAST(0x10, 0x10));
	/* after hours anything ahead is possible, but ahead it must be */
	assert_int_equal(record_max_advance(0xffffffff), 0x7fffffff);
	assert_int_equal(record_max_advance(2018328), (uint64_t)2018328 * 1063 + 2000000);
	assert_int_equal(record_max_advance(2018329), 0x7fffffff);
	last = RECORD_LAST(5000, START);
	assert_true(record_advance(last, 5000u + 0x7fffffff, START + 5000000) != last);
	assert_true(record_advance(last, 5000 + 0x80000000, START + 5000000) == last);
}

/* Every clock in the field is followed exactly, however long it was silent. */
static void test_record_follows(void **state)
{
	static const uint32_t hz[] = { 2, 10, 100, 250, 1000, 1000000 };
	static const uint32_t steps_ms[] = { 1, 500, 1000, 60000, HOLD, 1800000 };

	(void)state;
	for (size_t h = 0; h < sizeof(hz) / sizeof(hz[0]); h++) {
		for (size_t s = 0; s < sizeof(steps_ms) / sizeof(steps_ms[0]); s++) {
			uint64_t last = RECORD_LAST(0xfff00000, START), ticks = 0xfff00000;

			for (int i = 1; i < 50; i++) {
				uint32_t now = START + (uint32_t)i * steps_ms[s];

				ticks = 0xfff00000 + (uint64_t)i * steps_ms[s] * hz[h] / 1000;
				last = record_advance(last, (uint32_t)ticks, now);
				assert_int_equal(RECORD_LAST_TSVAL(last), (uint32_t)ticks);
			}
		}
	}
}

static void test_record_limit(void **state)
{
	struct record r = { .shift = 5 };

	(void)state;
	assert_int_equal(record_limit_ms(&r, HOLD), HOLD);
	r.state = RECORD_ANSWERED;
	assert_int_equal(record_limit_ms(&r, HOLD), RECORD_SHIFTED_MS);
	r.state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT;
	assert_int_equal(record_limit_ms(&r, HOLD), RECORD_SHIFTED_MS);
	r.state |= RECORD_FIN_IN;
	assert_int_equal(record_limit_ms(&r, HOLD), HOLD);
	r.state = RECORD_ESTABLISHED | RECORD_RESET;
	assert_int_equal(record_limit_ms(&r, HOLD), HOLD);
	r.shift = 0;
	r.state = RECORD_ESTABLISHED;
	assert_int_equal(record_limit_ms(&r, HOLD), RECORD_UNSHIFTED_MS);
	assert_int_equal(record_limit_ms(&r, 2 * RECORD_UNSHIFTED_MS), 2 * RECORD_UNSHIFTED_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lower_clock),
		cmocka_unit_test(test_already_above),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_2hz),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_1mhz),
		cmocka_unit_test(test_times_of_reuse),
		cmocka_unit_test(test_hold_boundary),
		cmocka_unit_test(test_lost_first_syn),
		cmocka_unit_test(test_restart_between),
		cmocka_unit_test(test_reverse_order),
		cmocka_unit_test(test_refused_rearms),
		cmocka_unit_test(test_pass_reasons),
		cmocka_unit_test(test_poison),
		cmocka_unit_test(test_double_nat),
		cmocka_unit_test(test_retransmission_keeps_shift),
		cmocka_unit_test(test_retransmission_of_unshifted),
		cmocka_unit_test(test_retransmission_too_late),
		cmocka_unit_test(test_answered_never_changes),
		cmocka_unit_test(test_overtaken_copy),
		cmocka_unit_test(test_constant_isn),
		cmocka_unit_test(test_learnt_floor),
		cmocka_unit_test(test_floor_equal_to_syn),
		cmocka_unit_test(test_floor_and_last),
		cmocka_unit_test(test_never_zero),
		cmocka_unit_test(test_serial_boundaries),
		cmocka_unit_test(test_is_above),
		cmocka_unit_test(test_lost_syn_between),
		cmocka_unit_test(test_unify),
		cmocka_unit_test(test_milliseconds),
		cmocka_unit_test(test_record_advance),
		cmocka_unit_test(test_record_follows),
		cmocka_unit_test(test_record_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
