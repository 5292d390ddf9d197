// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The decision that rides on the clocks of policy "unify", on simulated time: the gateway, as its
 * egress program puts the parts together, and servers that judge its SYNs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "connection-packets.h"
#include "tsclock-common.h"

#define TUPLES 64
#define CLIENTS 24

struct client {
	uint32_t hz, offset;
};

struct connection {
	struct record r;
	bool known; /* there is a record */
	bool open;
	uint32_t client;
	uint32_t shift; /* of its first SYN */
	/* a server that compares per tuple, and forgets when the gateway may */
	bool has_last;
	uint32_t last;
	uint64_t seen_ms;
};

struct world {
	struct tsclock clock;
	enum policy policy;
	uint64_t now_ms;
	uint32_t isn;
	struct client clients[CLIENTS];
	struct connection tuples[TUPLES];
	struct destination destination; /* all tuples have the same one */

	/*
	 * a server that compares per source address, as Linux did with tcp_tw_recycle
	 * (tcp_v4_conn_request in 2.6 to 4.11)
	 */
	bool address_has_last;
	uint32_t address_last;

	uint32_t syns, shifted, refused_per_tuple, refused_per_address, retransmitted;
};

static uint32_t now32(const struct world *w)
{
	return (uint32_t)w->now_ms;
}

static struct tuple tuple_number(uint32_t i)
{
	return tuple(1, (uint16_t)(20000 + i), 2);
}

/* The client's clock. Never 0, which would stand for "no timestamps". */
static uint32_t client_tsval(const struct world *w, uint32_t client)
{
	const struct client *c = &w->clients[client];
	uint32_t v = c->offset + (uint32_t)(w->now_ms * c->hz / 1000);

	return v ? v : 1;
}

static void server_sees(struct world *w, struct connection *c, uint32_t tsval)
{
	if (!c->has_last || ts_after(tsval, c->last))
		c->last = tsval;
	if (!w->address_has_last || ts_after(tsval, w->address_last))
		w->address_last = tsval;
	c->has_last = w->address_has_last = true;
	c->seen_ms = w->now_ms;
}

static struct decide_input input_for(const struct world *w, uint32_t i, uint32_t isn,
				     uint32_t tsval)
{
	const struct tuple t = tuple_number(i);
	struct decide_input in = {
		.isn = isn,
		.tsval = tsval,
		.now_ms = now32(w),
		.hold_ms = HOLD,
		.policy = w->policy,
	};

	if (w->policy == POLICY_UNIFY)
		decide_set_clock(&in, &w->clock, &t, &w->destination);
	return in;
}

static bool destinations_have_clocks(const struct world *w)
{
	return w->policy == POLICY_UNIFY && w->clock.scope == SCOPE_DESTINATION;
}

/* TSVAL left, and the gateway believes it. */
static void destination_sees(struct world *w, uint32_t tsval)
{
	if (destinations_have_clocks(w))
		connection_advance_destination(&w->destination, tsval, now32(w));
}

/* A new connection's SYN leaves and arrives. Returns its TSval on the wire. */
static uint32_t connect_at(struct world *w, uint32_t i, uint32_t client)
{
	struct connection *c = &w->tuples[i];
	const struct wire_packet syn = packet(WIRE_SYN, ++w->isn, client_tsval(w, client));
	struct decide_input in = input_for(w, i, syn.seq, syn.tsval);
	struct decision d = decide(c->known ? &c->r : NULL, &in);
	uint32_t tsval = syn.tsval + d.shift;

	assert_int_equal(d.kind, DECISION_NEW);
	assert_int_not_equal(tsval, 0);
	if (c->known)
		assert_int_equal(connection_next(NULL, &c->r, &syn, NULL, d.shift, now32(w), HOLD),
				 0);
	else
		connection_first(&c->r, &syn, NULL, d.shift, now32(w));
	c->known = true;
	destination_sees(w, tsval);
	w->syns++;
	w->shifted += d.shift != 0;
	if (c->has_last && w->now_ms - c->seen_ms > HOLD)
		c->has_last = false;
	if (c->has_last && !ts_after(tsval, c->last))
		w->refused_per_tuple++;
	if (w->address_has_last && (int32_t)(w->address_last - tsval) > 1)
		w->refused_per_address++;
	server_sees(w, c, tsval);
	c->client = client;
	c->shift = d.shift;
	c->open = true;
	return tsval;
}

static void retransmit(struct world *w, struct connection *c)
{
	const struct wire_packet syn = packet(WIRE_SYN, c->r.isn, client_tsval(w, c->client));
	struct decide_input in = input_for(w, (uint32_t)(c - w->tuples), syn.seq, syn.tsval);
	struct decision d = decide(&c->r, &in);

	assert_int_equal(d.kind, DECISION_RETRANSMIT);
	assert_int_equal(d.shift, c->shift);
	connection_syn_again(NULL, &c->r, &syn, now32(w));
	destination_sees(w, syn.tsval + d.shift);
	server_sees(w, c, syn.tsval + d.shift);
	w->retransmitted++;
}

static void answer(struct world *w, struct connection *c)
{
	struct wire_packet syn_ack = packet(WIRE_SYN | WIRE_ACK, 1, 1);

	syn_ack.ack = c->r.isn + 1;
	connection_in(NULL, &c->r, &syn_ack, now32(w));
}

/* An outbound segment. Returns its TSval on the wire. */
static uint32_t send_segment(struct world *w, struct connection *c, uint16_t flags)
{
	const struct wire_packet pkt =
		packet(WIRE_ACK | flags, c->r.isn + 1, client_tsval(w, c->client));
	uint32_t tsval = pkt.tsval + c->r.shift;

	assert_int_equal(c->r.shift, c->shift);
	if (connection_out(NULL, &c->r, &pkt, c->r.shift, now32(w)))
		destination_sees(w, tsval);
	server_sees(w, c, tsval);
	return tsval;
}

static uint32_t segment(struct world *w, struct connection *c)
{
	return send_segment(w, c, 0);
}

/* A segment outside the window, which the server drops: nothing is to believe it. */
static void wild_segment(struct world *w, struct connection *c, uint32_t ahead)
{
	const struct wire_packet pkt =
		packet(WIRE_ACK, c->r.isn + 1, client_tsval(w, c->client) + ahead);
	uint64_t last = c->r.last;

	assert_int_equal(connection_out(NULL, &c->r, &pkt, c->r.shift, now32(w)), 0);
	assert_int_equal(c->r.last, last);
}

static void finish(struct world *w, struct connection *c)
{
	const struct wire_packet fin = packet(WIRE_FIN | WIRE_ACK, 1, 1);

	send_segment(w, c, WIRE_FIN);
	connection_in(NULL, &c->r, &fin, now32(w));
	c->open = false;
}

static struct world new_world(enum policy policy, enum scope scope)
{
	static const uint32_t hz[] = { 2, 10, 100, 250, 1000, 1000000 };
	struct world w = { .clock = clock_of_destinations, .policy = policy, .now_ms = START };

	w.clock.scope = scope;
	for (uint32_t i = 0; i < CLIENTS; i++)
		w.clients[i] =
			(struct client){ .hz = hz[i % 6], .offset = (uint32_t)random() << 1 };
	return w;
}

/* CASES 8: two hosts behind one address, different ports, a server that compares per address. */
static void test_two_hosts_one_address(void **state)
{
	struct world w = new_world(POLICY_REPAIR, SCOPE_DESTINATION);

	(void)state;
	w.clients[0] = (struct client){ .hz = 1000, .offset = 3000000000u };
	w.clients[1] = (struct client){ .hz = 1000, .offset = 1000000000u };
	for (uint32_t n = 0; n < 10; n++) {
		connect_at(&w, n, n % 2);
		w.now_ms += 100;
	}
	assert_int_equal(w.refused_per_tuple, 0);
	assert_int_equal(w.refused_per_address, 5); /* the host with the lower clock, each time */

	w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
	w.clients[0] = (struct client){ .hz = 1000, .offset = 3000000000u };
	w.clients[1] = (struct client){ .hz = 1000, .offset = 1000000000u };
	for (uint32_t n = 0; n < 1000; n++) {
		connect_at(&w, n % TUPLES, n % 2);
		answer(&w, &w.tuples[n % TUPLES]);
		finish(&w, &w.tuples[n % TUPLES]);
		w.now_ms += (uint32_t)random() % 100;
	}
	assert_int_equal(w.refused_per_address, 0);
	assert_int_equal(w.refused_per_tuple, 0);
	assert_int_equal(w.syns, 1000);
}

/*
 * The clock goes on from the highest TSval that a 1 MHz client reached, and new connections start
 * above it.
 */
static void test_rides_on_fast_client(void **state)
{
	struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
	uint32_t last, tsval;

	(void)state;
	w.clients[0].hz = 1000000;
	w.clients[1].hz = 1000;
	connect_at(&w, 0, 0);
	answer(&w, &w.tuples[0]);
	for (int n = 0; n < 60; n++) {
		w.now_ms += 1000;
		last = segment(&w, &w.tuples[0]);
		w.now_ms += 7;
		tsval = connect_at(&w, 1, 1);
		assert_int_equal(tsval, last + 7);
		answer(&w, &w.tuples[1]);
		finish(&w, &w.tuples[1]);
	}
	assert_int_equal(w.refused_per_address, 0);
}

/*
 * The fast client was silent for a while, in which others connected, one of them with a fast clock,
 * too: its next segment takes the destination's clock along all the same.
 */
static void test_rides_on_fast_client_that_was_silent(void **state)
{
	static const uint32_t silence_ms[] = { 1000, 3000, 60000, 300000 };

	(void)state;
	for (size_t k = 0; k < 2 * sizeof(silence_ms) / sizeof(silence_ms[0]); k++) {
		struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
		uint32_t last, tsval;

		w.clients[0].hz = 1000000;
		w.clients[1].hz = k % 2 ? 1000000 : 1000;
		connect_at(&w, 0, 0);
		answer(&w, &w.tuples[0]);
		segment(&w, &w.tuples[0]);
		for (uint32_t n = 0; n < 10; n++) {
			w.now_ms += silence_ms[k / 2] / 10 - 20;
			connect_at(&w, 1 + n, 1);
			answer(&w, &w.tuples[1 + n]);
			w.now_ms += 20;
			finish(&w, &w.tuples[1 + n]);
		}
		last = segment(&w, &w.tuples[0]);
		w.now_ms += 5;
		tsval = connect_at(&w, 20, 1);
		assert_after(tsval, last);
		assert_int_equal(w.refused_per_address, 0);
		assert_int_equal(w.refused_per_tuple, 0);
	}
}

/*
 * A record's floor far ahead of the clock (the clock was evicted or restored): that SYN takes the
 * clock along.
 */
static void test_rides_on_floor(void **state)
{
	struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
	uint32_t tsval;

	(void)state;
	connect_at(&w, 0, 0);
	w.tuples[1] = (struct connection){
		.r = { .last = RECORD_LAST(w.address_last + 50000000, START), .seen_ms = START },
		.known = true,
	};
	w.now_ms += 100;
	tsval = connect_at(&w, 1, 0);
	assert_after(tsval, RECORD_LAST_TSVAL(w.tuples[1].r.last) - 1);
	w.now_ms += 100;
	assert_after(connect_at(&w, 2, 0), tsval);
	assert_int_equal(w.refused_per_address, 0);
}

/*
 * Since the daemon's decision a higher TSval has left for the destination: the egress program
 * decides again.
 */
static void test_stale_proposal(void **state)
{
	struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
	struct decide_input in;
	uint32_t shift;

	(void)state;
	w.clients[0].hz = 1000000;
	connect_at(&w, 0, 0);
	answer(&w, &w.tuples[0]);
	w.now_ms += 10;
	in = input_for(&w, 1, 7777, 123);
	shift = decide(NULL, &in).shift;
	assert_true(decide_is_above(NULL, &in, shift));
	segment(&w, &w.tuples[0]); /* 10 000 ticks on */
	in = input_for(&w, 1, 7777, 123);
	assert_false(decide_is_above(NULL, &in, shift));
	assert_true(decide_is_above(NULL, &in, decide(NULL, &in).shift));
	/* under the other scope nobody else's connection matters */
	w.clock.scope = SCOPE_TUPLE;
	in = input_for(&w, 1, 7777, 123);
	assert_false(in.have_high);
	assert_true(decide_is_above(NULL, &in, shift));
}

/* Through 0, which no SYN may carry, and over the wrap of the boot clock. */
static void test_through_zero(void **state)
{
	struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
	const struct tuple t = tuple_number(0);
	uint32_t last = 0;

	(void)state;
	w.now_ms = 0x1fffffff0; /* the boot clock's 32 bits wrap in a moment */
	w.clock.base_ms -= tsclock_keyed(&w.clock, &t, now32(&w)) +
			   100; /* and the clock passes 0 soon after */
	for (uint32_t n = 0; n < 300; n++) {
		uint32_t tsval = connect_at(&w, n % 4, 4);

		if (n)
			assert_not_before(tsval, last);
		last = tsval;
		w.now_ms++;
	}
	assert_int_equal(w.refused_per_tuple, 0);
	assert_int_equal(w.refused_per_address, 0);
}

/* The machine sleeps, the boot clock does not: the server counted that time, too. */
static void test_suspend(void **state)
{
	struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);
	uint32_t before = connect_at(&w, 0, 4), after;

	(void)state;
	w.now_ms += 9 * HOUR;
	after = connect_at(&w, 1, 4);
	assert_int_equal(after - before, 9 * HOUR);
	after = connect_at(&w, 0, 4);
	assert_int_equal(w.refused_per_tuple + w.refused_per_address, 0);
	(void)after;
}

/*
 * No wall clock comes in anywhere. The readings of two processors may differ by microseconds, so
 * that time seems to step back.
 */
static void test_processors_disagree(void **state)
{
	struct world w = new_world(POLICY_UNIFY, SCOPE_DESTINATION);

	(void)state;
	for (uint32_t n = 0; n < 10000; n++) {
		w.now_ms += 1;
		w.now_ms -= n % 3 == 0;
		connect_at(&w, n % TUPLES, 4);
		answer(&w, &w.tuples[n % TUPLES]);
		w.now_ms += 1;
		finish(&w, &w.tuples[n % TUPLES]);
		w.now_ms -= 1;
	}
	assert_int_equal(w.refused_per_tuple, 0);
	assert_int_equal(w.refused_per_address, 0);
}

/*
 * A reboot, for the clock's part (state-test.c has the file's): the boot clock starts again,
 * records and destinations may be gone, and the base is the saved one, and more. A server compares
 * with the TSvals that it saw before.
 */
static void test_reboot(void **state)
{
	const uint32_t reserve = 90000; /* one interval between saves, and slack */

	(void)state;
	for (uint32_t up = 1; up < 60 * DAY; up += 13 * HOUR) {
		struct tsclock c = clock_of_destinations;
		const struct tuple t = tuple_number(0);
		uint32_t before, after, saved;

		c.base_ms = up * 7;
		saved = c.base_ms + up;
		before = tsclock_keyed(&c, &t, up + 60000); /* a crash just before the next save */
		c.base_ms = saved + reserve - 3000; /* up again after 3 s, by its own clock */
		after = tsclock_keyed(&c, &t, 3000);
		assert_after(after, before);
		assert_true(after - before <= reserve); /* never by half the range */
	}
}

/* --- a million operations --- */

#define OPERATIONS 1000000

/*
 * Naive servers: one remembers the highest TSval per tuple for the hold time, the other per address
 * for good. Everything that left counts as seen. Not in here: silence of more than minutes
 * under a 1 MHz clock, after which TSvals mean nothing to anybody.
 */
static void one_operation(struct world *w)
{
	uint32_t what = (uint32_t)random() % 100;
	struct connection *c = &w->tuples[random() % TUPLES];

	if (what < 45 && !c->open) {
		connect_at(w, (uint32_t)(c - w->tuples), (uint32_t)random() % CLIENTS);
		/*
		 * a SYN sent again: by a client as fast as the clock, or that SYN is behind others'
		 * by its own choice
		 */
		if (what < 3 && w->clients[c->client].hz >= 1000) {
			w->now_ms += 1000;
			retransmit(w, c);
		}
		if (what > 3)
			answer(w, c);
	} else if (what < 80 && c->open) {
		segment(w, c);
	} else if (what == 80 && c->open) {
		wild_segment(w, c, 1u << 30);
	} else if (what < 99 && c->open) {
		finish(w, c);
	} else if (what == 99 && c->open) {
		/* the client vanishes, and another one gets the tuple */
		c->open = false;
	}
	/* mostly bursts, sometimes seconds, rarely minutes */
	what = (uint32_t)random() % 10000;
	w->now_ms += what < 7000   ? 0
		     : what < 9900 ? what % 20
		     : what < 9999 ? what % 100 * 30
				   : 100000;
}

static void million(enum policy policy, enum scope scope, struct world *ret)
{
	struct world w;

	srandom(policy * 10 + scope + 1);
	w = new_world(policy, scope);
	w.now_ms = 0x100000000 - 3 * HOUR; /* the 32 bits of time wrap on the way */
	for (uint32_t n = 0; n < OPERATIONS; n++)
		one_operation(&w);
	*ret = w;
}

static void test_million_destination(void **state)
{
	struct world w;

	(void)state;
	million(POLICY_UNIFY, SCOPE_DESTINATION, &w);
	assert_true(w.syns > OPERATIONS / 10 && w.retransmitted > 1000 && w.now_ms >> 32);
	assert_int_equal(w.refused_per_tuple, 0);
	assert_int_equal(w.refused_per_address, 0);
}

static void test_million_tuple(void **state)
{
	struct world w;

	(void)state;
	million(POLICY_UNIFY, SCOPE_TUPLE, &w);
	assert_true(w.syns > OPERATIONS / 10 && w.now_ms >> 32);
	assert_int_equal(w.refused_per_tuple, 0);
	/*
	 * that server does refuse under the other scope and policy, or the test above would show
	 * nothing
	 */
	assert_true(w.refused_per_address > w.syns / 10);
	million(POLICY_REPAIR, SCOPE_DESTINATION, &w);
	assert_int_equal(w.refused_per_tuple, 0);
	assert_true(w.refused_per_address > w.syns / 10);
	assert_true(w.shifted < w.syns && w.shifted > w.syns / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_hosts_one_address),
		cmocka_unit_test(test_rides_on_fast_client),
		cmocka_unit_test(test_rides_on_fast_client_that_was_silent),
		cmocka_unit_test(test_rides_on_floor),
		cmocka_unit_test(test_stale_proposal),
		cmocka_unit_test(test_through_zero),
		cmocka_unit_test(test_suspend),
		cmocka_unit_test(test_processors_disagree),
		cmocka_unit_test(test_reboot),
		cmocka_unit_test(test_million_destination),
		cmocka_unit_test(test_million_tuple),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
