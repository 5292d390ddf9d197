// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whose is a segment that was queued before its tuple went to the next connection, and is read
 * after?
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/succession.h"

#define SYN WIRE_SYN
#define ACK WIRE_ACK
#define FIN WIRE_FIN
#define RST WIRE_RST
#define OUT 1
#define IN 0
#define TSVAL 1000000u /* of the new connection's SYN, as it left */
#define SHIFT 77u

struct tuple_state {
	struct record record;
	struct succession s;
};

static struct wire_packet segment(uint16_t flags, uint32_t seq, uint32_t ack)
{
	return (struct wire_packet){
		.flags = flags, .seq = seq, .ack = ack, .ts_count = 1, .tsval = 1, .tsecr = 1
	};
}

static void follow(struct tuple_state *t, int outbound, uint16_t flags, uint32_t seq, uint32_t ack)
{
	const struct wire_packet p = segment(flags, seq, ack);

	succession_follow(&t->s, &p, outbound);
}

static int is_old(const struct tuple_state *t, int outbound, uint16_t flags, uint32_t seq,
		  uint32_t ack)
{
	const struct wire_packet p = segment(flags, seq, ack);

	return succession_is_old(&t->s, &t->record, &p, outbound);
}

static void claim(struct tuple_state *t, uint32_t isn, uint32_t shift)
{
	if (t->record.isn || t->record.shift)
		succession_next(&t->s, &t->record, isn);
	else
		succession_first(&t->s, isn);
	t->record = (struct record){ .isn = isn, .shift = shift, .syn_tsval = TSVAL };
}

static void answer(struct tuple_state *t, uint32_t irs)
{
	t->record.state |= RECORD_ANSWERED;
	follow(t, IN, SYN | ACK, irs, t->record.isn + 1);
}

/* A whole connection of LEN bytes to the server, whose last segments are still on their way. */
static void connection(struct tuple_state *t, uint32_t isn, uint32_t irs, uint32_t len)
{
	claim(t, isn, SHIFT);
	answer(t, irs);
	for (uint32_t sent = 0; sent < len; sent += len / 16 + 1)
		follow(t, OUT, ACK, isn + 1 + sent, irs + 1);
}

static void test_first(void **state)
{
	struct tuple_state t = { 0 };

	(void)state;
	claim(&t, 5000, SHIFT);
	assert_false(is_old(&t, IN, SYN | ACK, 1, 5001));
	assert_false(is_old(&t, OUT, ACK, 123456789, 987654321));
}

/* The new SYN was read, its answer was not: all with ACK is the old one's. */
static void test_unanswered(void **state)
{
	struct tuple_state t = { 0 };
	struct wire_packet challenge = segment(ACK, 90000 + 500, 5000 + 600);

	(void)state;
	connection(&t, 5000, 90000, 500);
	claim(&t, 3000000000u, 99);
	assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	assert_true(is_old(&t, OUT, FIN | ACK, 5501, 90501));
	assert_true(is_old(&t, OUT, RST | ACK, 5501, 90501));
	assert_true(is_old(&t, OUT, RST, 5501, 0));
	assert_false(is_old(&t, OUT, RST, 3000000001u,
			    0)); /* the answer to a challenge has the SYN's numbers */
	assert_true(is_old(&t, IN, ACK, 90500,
			   5502)); /* tells a TSval that is no reason to refuse the SYN */
	assert_true(is_old(&t, IN, FIN | ACK, 90500, 5502));
	challenge.tsecr = TSVAL;
	assert_false(succession_is_old(&t.s, &t.record, &challenge, IN));
	assert_false(is_old(&t, IN, SYN | ACK, 777, 3000000001u));
	assert_false(is_old(&t, IN, RST | ACK, 0, 3000000001u)); /* nobody listens any more */
}

/*
 * A server's initial sequence number moves on slowly, so the answer's is near the old connection's.
 */
static void test_answer(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 1u << 20; i++) {
		struct tuple_state t = { 0 };
		const uint32_t isn = (uint32_t)(i << 12);

		connection(&t, 5000, 90000, 500);
		if (isn - 5000 < 1u << 16)
			continue;
		claim(&t, isn, 99);
		assert_false(is_old(&t, IN, SYN | ACK, 90500 + 65536, isn + 1));
		assert_false(is_old(&t, IN, RST | ACK, 0, isn + 1));
		answer(&t, 90500 + 65536);
		assert_false(is_old(&t, OUT, ACK, isn + 1, 90500 + 65537));
		assert_false(is_old(&t, IN, ACK, 90500 + 65537, isn + 1));
	}
}

static void test_answered(void **state)
{
	struct tuple_state t = { 0 };

	(void)state;
	connection(&t, 5000, 90000, 500);
	claim(&t, 3000000000u, 99);
	answer(&t, 2000000000u);
	assert_true(is_old(&t, OUT, FIN | ACK, 5501, 90501));
	assert_true(is_old(&t, IN, FIN | ACK, 90500, 5502));
	assert_true(is_old(&t, OUT, RST, 5501, 0));
	assert_false(is_old(&t, OUT, ACK, 3000000001u, 2000000001u));
	assert_false(is_old(&t, OUT, ACK, 3000000001u + (8u << 20),
			    2000000001u)); /* a window of data came at once */
	assert_false(is_old(&t, IN, ACK, 2000000001u, 3000000001u));
	assert_false(is_old(&t, OUT, RST, 3000000001u, 0));
	assert_false(is_old(&t, IN, RST, 2000000001u, 0));
}

/*
 * One inside socket after the other: both ends count on from where they were (RFC 6528), so the
 * spaces are neighbours.
 */
static void test_neighbours(void **state)
{
	struct tuple_state t = { 0 };

	(void)state;
	connection(&t, 0xfffff000u, 0x7fffff00u, 4000000);
	claim(&t, 0xfffff000u + 6000000, 99);
	answer(&t, 0x7fffff00u + 2000000);
	for (uint32_t sent = 0; sent < 100u << 20; sent += 1448) {
		follow(&t, OUT, ACK, t.record.isn + 1 + sent, 0x7fffff00u + 2000001);
		/* a lost segment is sent again, all of a large window later */
		assert_false(is_old(&t, OUT, ACK,
				    t.record.isn + 1 + (sent < 16u << 20 ? 0 : sent - (16u << 20)),
				    0x7fffff00u + 2000001));
	}
	assert_true(is_old(&t, OUT, FIN | ACK, 0xfffff000u + 4000001, 0x7fffff00u + 1));
	assert_true(is_old(&t, IN, ACK, 0x7fffff00u + 1, 0xfffff000u + 4000001));
}

/*
 * Gigabytes later, one end's numbers come by where the old connection was; the other end's never do
 * at the same time.
 */
static void test_around(void **state)
{
	struct tuple_state t = { 0 };

	(void)state;
	connection(&t, 5000, 90000, 500);
	claim(&t, 4000000000u, 99);
	answer(&t, 2000000000u);
	for (uint64_t sent = 0; sent < 9ull << 30; sent += 1u << 20) {
		const uint32_t seq = 4000000001u + (uint32_t)sent;

		assert_false(is_old(&t, OUT, ACK, seq, 2000000001u));
		follow(&t, OUT, ACK, seq, 2000000001u);
		assert_false(is_old(&t, IN, ACK, 2000000001u, seq));
		follow(&t, IN, ACK, 2000000001u, seq);
		assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	}
}

/*
 * A connection that was never answered leaves nothing behind: the one before it is still the old
 * one.
 */
static void test_unanswered_in_between(void **state)
{
	struct tuple_state t = { 0 };

	(void)state;
	connection(&t, 5000, 90000, 500);
	claim(&t, 3000000000u, 99);
	claim(&t, 1000000000u, 111);
	assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	assert_int_equal(t.s.old_shift, SHIFT);
	answer(&t, 2000000000u);
	assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	claim(&t, 1500000000u, 0);
	assert_int_equal(t.s.old_shift, 111);
}

/*
 * Segments of an unshifted connection are not queued: those that come are of the shifted one
 * before. And the other way round.
 */
static void test_unshifted(void **state)
{
	struct tuple_state t = { 0 };

	(void)state;
	connection(&t, 5000, 90000, 500);
	claim(&t, 3000000000u, 0);
	assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	assert_true(is_old(&t, IN, ACK, 90500, 5502));
	t = (struct tuple_state){ 0 };
	claim(&t, 5000, 0);
	claim(&t, 3000000000u, 99);
	assert_false(is_old(&t, OUT, ACK, 5501, 90501));
}

/* After a restart nothing is known of a connection that goes on, and old queues are gone. */
static void test_restart(void **state)
{
	struct tuple_state t = { .record = {
					 .isn = 5000, .shift = SHIFT, .state = RECORD_ANSWERED } };

	(void)state;
	claim(&t, 3000000000u, 99);
	assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	answer(&t, 2000000000u);
	assert_true(is_old(&t, OUT, ACK, 5501, 90501));
	assert_false(is_old(&t, OUT, ACK, 3000000001u, 2000000001u));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_unanswered),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_answered),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_around),
		cmocka_unit_test(test_unanswered_in_between),
		cmocka_unit_test(test_unshifted),
		cmocka_unit_test(test_restart),
	};

	return cmocka_run_group_tests_name("succession", tests, NULL, NULL);
}
