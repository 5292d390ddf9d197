// SPDX-License-Identifier: GPL-2.0-or-later
/* A connection's packets and its record: flags, counters, and who gets the record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide-path.h"

static uint64_t counted(const struct path *p, enum counter which)
{
	return p->counted.of[which];
}

/* A connection with a shift, answered. */
static struct path shifted(void)
{
	struct path p = closed_at(70000, START);

	assert_int_not_equal(syn(&p, 2, 1000, START + 500).shift, 0);
	answer(&p, START + 600);
	return p;
}

static const struct inside inside = { .src = { 1 }, .dst = { 2 }, .sport_be = 3, .dport_be = 4 };

static void test_first(void **state)
{
	const struct wire_packet pkt = packet(WIRE_SYN, 7, 1000);
	struct record r;

	(void)state;
	connection_first(&r, &pkt, &inside, 50, START);
	assert_true(r.last == RECORD_LAST(1050, START));
	assert_int_equal(r.state, RECORD_LIVE);
	assert_int_equal(r.shift, 50);
	assert_int_equal(r.isn, 7);
	assert_int_equal(r.syn_tsval, 1050);
	assert_int_equal(r.seen_ms, START);
	assert_int_equal(r.syn_ms, START);
	assert_memory_equal(&r.inside, &inside, sizeof(inside));
	connection_first(&r, &pkt, NULL, 0, START);
	assert_int_equal(r.state, 0);
	assert_int_equal(r.inside.sport_be, 0);
}

static void test_next(void **state)
{
	const struct wire_packet pkt = packet(WIRE_SYN, 7, 1000);
	struct path p = closed_at(70000, START);
	const struct inside none = { 0 };
	uint32_t generation = p.r.state / RECORD_GENERATION;

	(void)state;
	assert_int_equal(connection_next(&p.counted, &p.r, &pkt, &inside, 70000, START + 99, HOLD),
			 0);
	assert_true(p.r.last == RECORD_LAST(71000, START + 99));
	assert_int_equal(p.r.state & RECORD_FLAGS, RECORD_BASE | RECORD_LIVE);
	assert_int_equal(p.r.state / RECORD_GENERATION, generation + 1);
	assert_int_equal(p.r.base, 70000);
	assert_int_equal(p.r.isn, 7);
	assert_int_equal(p.r.syn_tsval, 71000);
	assert_int_equal(p.r.seen_ms, START + 99);
	assert_int_equal(p.r.syn_ms, START + 99);
	assert_memory_equal(&p.r.inside, &inside, sizeof(inside));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_STARTED), 1);
	/* unshifted, and after the hold: nothing of the old one is left */
	assert_int_equal(connection_next(&p.counted, &p.r, &pkt, NULL, 0, START + 100 + HOLD, HOLD),
			 0);
	assert_int_equal(p.r.state & RECORD_FLAGS, 0);
	assert_int_equal(p.r.base, 0);
	assert_memory_equal(&p.r.inside, &none, sizeof(none));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 1);
}

/* The base is the last TSval before the first of several SYNs that were not answered. */
static void test_base_stays(void **state)
{
	struct path p = closed_at(70000, START);

	(void)state;
	syn(&p, 2, 80000, START + 100);
	assert_int_equal(p.r.base, 70000);
	syn(&p, 3, 90000, START + 200);
	assert_int_equal(p.r.base, 70000);
	answer(&p, START + 210);
	syn(&p, 4, 95000, START + 300);
	assert_int_equal(p.r.base, 90000);
}

/* A record that the sweeper has is nobody's. */
static void test_dead(void **state)
{
	const struct wire_packet pkt = packet(WIRE_SYN, 7, 1000);
	struct path p = closed_at(70000, START);
	uint32_t before;

	(void)state;
	p.r.state |= RECORD_DEAD;
	before = p.r.state;
	assert_int_equal(connection_next(&p.counted, &p.r, &pkt, NULL, 5, START + 10, HOLD), -1);
	pass_syn(&p, 8, false, START + 10);
	assert_int_equal(p.r.state, before);
	assert_int_equal(p.r.isn, 1);
	assert_int_equal(p.r.shift, 0);
}

static void test_syn_again(void **state)
{
	struct path p = closed_at(70000, START);
	struct left l = syn(&p, 2, 1000, START + 500);

	(void)state;
	assert_int_equal(syn(&p, 2, 2000, START + 1500).kind, DECISION_RETRANSMIT);
	assert_true(p.r.last == RECORD_LAST(l.tsval + 1000, START + 1500));
	assert_int_equal(p.r.syn_tsval, l.tsval);
	assert_int_equal(p.r.seen_ms, START + 1500);
	assert_int_equal(counted(&p, COUNTER_SYN_RETRANSMITTED), 1);
	assert_int_equal(counted(&p, COUNTER_SHIFTS_STARTED), 1);
	/* written off meanwhile */
	p.r.state &= ~RECORD_LIVE;
	assert_int_equal(syn(&p, 2, 3000, START + 2500).kind, DECISION_RETRANSMIT);
	assert_true(p.r.state & RECORD_LIVE);
	assert_int_equal(counted(&p, COUNTER_SHIFTS_STARTED), 2);
}

/* A SYN that passes: the server may still hold the TSval that left before it. */
static void test_pass_keeps_last(void **state)
{
	struct path p = closed_at(80000, START);
	struct left l;

	(void)state;
	for (int zero = 0; zero < 2; zero++) {
		p = closed_at(80000, START);
		pass_syn(&p, 2, zero, START + 100);
		assert_int_equal(p.r.isn, 2);
		assert_int_equal(p.r.syn_ms, START + 100);
		assert_int_equal(counted(&p, COUNTER_SYN_PASSED), 1);
		assert_int_equal(counted(&p, zero ? COUNTER_PASSED_ZERO_TIMESTAMP
						  : COUNTER_PASSED_NO_TIMESTAMP),
				 1);
		/* it was lost, or refused */
		l = syn(&p, 3, 1000, START + 200);
		assert_int_equal(l.kind, DECISION_NEW);
		assert_true(ts_after(l.tsval, 80000));
	}
	/* of a tuple without record nothing is remembered */
	p = new_path();
	pass_syn(&p, 2, true, START);
	assert_false(p.known);
	assert_int_equal(counted(&p, COUNTER_SYN_PASSED), 1);
}

/* After TSval 0 the connection's own clock counts, wherever it is. */
static void test_first_tsval_after_zero(void **state)
{
	struct path p = closed_at(80000, START);

	(void)state;
	pass_syn(&p, 2, true, START + 100);
	assert_true(p.r.state & RECORD_NO_LAST);
	answer(&p, START + 110);
	segment(&p, 0xf0000000, START + 200);
	assert_int_equal(RECORD_LAST_TSVAL(p.r.last), 0xf0000000);
	assert_false(p.r.state & RECORD_NO_LAST);
	/* from then on it is followed as any other */
	segment(&p, 0xf0000000 - 5, START + 210);
	assert_int_equal(RECORD_LAST_TSVAL(p.r.last), 0xf0000000);
	fins(&p, START + 220);
	assert_int_equal(syn(&p, 3, 1000, START + 300).shift, 0);
}

/* The shift of an open connection ends with the SYN that passes in its place. */
static void test_pass_ends_shift(void **state)
{
	struct path p = shifted();

	(void)state;
	pass_syn(&p, 3, false, START + 700);
	assert_int_equal(p.r.shift, 0);
	assert_false(p.r.state & (RECORD_LIVE | RECORD_ANSWERED));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 1);
}

static void test_answer(void **state)
{
	struct path p = closed_at(70000, START);
	struct wire_packet pkt = packet(WIRE_SYN | WIRE_ACK, SERVER_ISN, SERVER_TSVAL);

	(void)state;
	syn(&p, 2, 1000, START + 500);
	/* the answer to another SYN */
	pkt.ack = 4711;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 510), 0);
	assert_false(p.r.state & RECORD_ANSWERED);
	/* a reset is no challenge */
	pkt.flags = WIRE_RST | WIRE_ACK;
	pkt.tsecr = p.r.syn_tsval + 1;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 510), 0);
	assert_false(p.r.state & RECORD_FLOOR);
	assert_true(p.r.state & RECORD_RESET);
	answer(&p, START + 520);
	assert_true(p.r.state & RECORD_ANSWERED);
	assert_false(p.r.state & RECORD_ESTABLISHED);
	assert_int_equal(counted(&p, COUNTER_CHALLENGE_ACKS), 0);
	segment(&p, 1100, START + 600);
	assert_true(p.r.state & RECORD_ESTABLISHED);
}

static void test_challenge(void **state)
{
	struct wire_packet pkt = packet(WIRE_ACK, SERVER_ISN, SERVER_TSVAL);
	struct path p = new_path();

	(void)state;
	syn(&p, 2, 1000, START);
	/* below the SYN: it was refused for another reason; TSecr 0 is none; no timestamp */
	pkt.tsecr = 999;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 20), 1);
	pkt.tsecr = 0;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 20), 1);
	pkt.tsecr = 5000;
	pkt.ts_count = 0;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 20), 1);
	assert_false(p.r.state & RECORD_FLOOR);
	pkt.ts_count = 1;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 20), 1);
	assert_true(p.r.state & RECORD_FLOOR);
	assert_int_equal(p.r.floor, 5000);
	assert_int_equal(p.r.seen_ms, START + 20);
	assert_int_equal(counted(&p, COUNTER_CHALLENGE_ACKS), 4);
	/* once it was answered an ACK is an ACK */
	answer(&p, START + 30);
	pkt.tsecr = 6000;
	assert_int_equal(connection_in(&p.counted, &p.r, &pkt, START + 40), 0);
	assert_int_equal(p.r.floor, 5000);
}

/* It ends when both sides said so, in either order, or with a reset from either side. */
static void test_ends(void **state)
{
	const struct wire_packet fin = packet(WIRE_FIN | WIRE_ACK, SERVER_ISN + 1, SERVER_TSVAL),
				 rst = packet(WIRE_RST, SERVER_ISN + 1, SERVER_TSVAL);
	struct path p = shifted();

	(void)state;
	fins(&p, START + 700);
	assert_false(record_is_open(&p.r));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 1);
	p = shifted();
	connection_in(&p.counted, &p.r, &fin, START + 700);
	assert_true(record_is_open(&p.r));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 0);
	send_out(&p, WIRE_FIN | WIRE_ACK, 1200, START + 700);
	assert_false(record_is_open(&p.r));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 1);
	p = shifted();
	connection_in(&p.counted, &p.r, &rst, START + 700);
	assert_false(record_is_open(&p.r));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 1);
	p = shifted();
	client_resets(&p, START + 700);
	assert_false(record_is_open(&p.r));
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 1);
}

/* A reset that nobody believed: the client goes on, and so does the shift. */
static void test_goes_on_after_reset(void **state)
{
	struct path p = shifted();

	(void)state;
	client_resets(&p, START + 700);
	segment(&p, 1300, START + 800);
	assert_true(record_is_open(&p.r));
	assert_true(p.r.state & RECORD_LIVE);
	assert_int_equal(counted(&p, COUNTER_SHIFTS_STARTED), 2);
	/* a closed one does not come to life again by a late acknowledgment */
	fins(&p, START + 900);
	client_resets(&p, START + 910);
	segment(&p, 1400, START + 920);
	assert_false(p.r.state & RECORD_LIVE);
	assert_int_equal(counted(&p, COUNTER_SHIFTS_ENDED), 2);
}

static void test_believed(void **state)
{
	struct path p = shifted();
	const uint32_t shift = p.r.shift;
	struct wire_packet pkt = packet(WIRE_ACK, 3, 1500);
	uint32_t last;

	(void)state;
	assert_int_equal(connection_out(&p.counted, &p.r, &pkt, shift, START + 1000), 1);
	last = RECORD_LAST_TSVAL(p.r.last);
	assert_int_equal(last, 1500 + shift);
	/* an older one is not wild, and moves nothing */
	pkt.tsval = 1400;
	assert_int_equal(connection_out(&p.counted, &p.r, &pkt, shift, START + 1000), 1);
	assert_int_equal(counted(&p, COUNTER_WILD_TSVALS), 0);
	pkt.tsval = 1500 + (1u << 30);
	assert_int_equal(connection_out(&p.counted, &p.r, &pkt, shift, START + 1000), 0);
	assert_int_equal(counted(&p, COUNTER_WILD_TSVALS), 1);
	/* without timestamp */
	pkt.ts_count = 0;
	assert_int_equal(connection_out(&p.counted, &p.r, &pkt, shift, START + 1000), 0);
	assert_int_equal(RECORD_LAST_TSVAL(p.r.last), last);
	/* signed: it leaves with the TSval that it came with */
	pkt.ts_count = pkt.auth_option = 1;
	pkt.tsval = last + 10;
	assert_int_equal(connection_out(&p.counted, &p.r, &pkt, shift, START + 1000), 1);
	assert_int_equal(RECORD_LAST_TSVAL(p.r.last), last + 10);
}

/* A segment that cannot be shifted is counted, in a connection that has a shift. */
static void test_bad_option_counted(void **state)
{
	struct path p = shifted(), unshifted = closed_at(70000, START);
	struct wire_packet pkt = packet(WIRE_ACK, 3, 1500);

	(void)state;
	pkt.bad_option = 1;
	connection_out(&p.counted, &p.r, &pkt, p.r.shift, START + 1000);
	connection_in(&p.counted, &p.r, &pkt, START + 1000);
	assert_int_equal(counted(&p, COUNTER_PASSED_BAD_OPTION), 2);
	connection_out(&unshifted.counted, &unshifted.r, &pkt, 0, START + 1000);
	connection_in(&unshifted.counted, &unshifted.r, &pkt, START + 1000);
	assert_int_equal(counted(&unshifted, COUNTER_PASSED_BAD_OPTION), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_base_stays),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_syn_again),
		cmocka_unit_test(test_pass_keeps_last),
		cmocka_unit_test(test_first_tsval_after_zero),
		cmocka_unit_test(test_pass_ends_shift),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_challenge),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_goes_on_after_reset),
		cmocka_unit_test(test_believed),
		cmocka_unit_test(test_bad_option_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
