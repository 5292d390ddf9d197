// SPDX-License-Identifier: GPL-2.0-or-later
/* The clocks of policy "unify", on simulated time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tsclock-common.h"

/* --- the hash --- */

/*
 * From the authors' reference implementation: key 00 01 .. 0f, message 00 01 .. of that many bytes.
 */
static void test_siphash_vectors(void **state)
{
	static const uint64_t expected[] = {
		0x726fdb47dd0e0e31, 0x93f5f5799a932462, 0x3f2acc7f57c29bdb, 0xb8ad50c6f649af94,
		0x7127512f72f27cce, 0x0e3ea96b5304a7d0, 0xe612a3cb9ecba951, 0xb78dbfaf3a8d83bd,
	};
	const struct siphash_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	__u64 words[8];

	(void)state;
	for (__u64 i = 0; i < 8; i++)
		words[i] = 0x0706050403020100 + i * 0x0808080808080808;
	for (uint32_t n = 0; n < 8; n++)
		assert_int_equal(siphash(&key, words, n), expected[n]);
}

/* --- whose clock it is --- */

static void test_scope_destination(void **state)
{
	const struct tsclock c = clock_of_destinations;
	const struct tuple t = tuple(1, 20000, 2);
	uint32_t reading = tsclock_keyed(&c, &t, START);
	struct tuple other;

	(void)state;
	other = tuple(1, 20001, 2);
	assert_int_equal(tsclock_keyed(&c, &other, START), reading);
	other.dport_be = __builtin_bswap16(443);
	assert_int_equal(tsclock_keyed(&c, &other, START), reading);
	/* another server, another address of our own, the same two the other way round */
	other = tuple(1, 20000, 3);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
	other = tuple(2, 20000, 2);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
	tuple_reverse(&other, &t);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
}

static void test_scope_tuple(void **state)
{
	struct tsclock c = clock_of_destinations;
	const struct tuple t = tuple(1, 20000, 2);
	struct tuple other;
	uint32_t reading;

	(void)state;
	c.scope = SCOPE_TUPLE;
	reading = tsclock_keyed(&c, &t, START);
	assert_int_equal(tsclock_keyed(&c, &t, START), reading);
	other = tuple(1, 20001, 2);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
	other = t;
	other.dport_be = __builtin_bswap16(443);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
	other = tuple(1, 20000, 3);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
	other = tuple(2, 20000, 2);
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);

	/* a tuple without ports tells nothing about the destination's clock */
	other = t;
	other.sport_be = other.dport_be = 0;
	reading = tsclock_keyed(&c, &other, START);
	c.scope = SCOPE_DESTINATION;
	assert_int_not_equal(tsclock_keyed(&c, &other, START), reading);
}

/*
 * Readings of neighbours are spread over the range: a server cannot tell one destination's clock
 * from another's.
 */
static void test_key(void **state)
{
	struct tsclock c = clock_of_destinations;
	unsigned int quarter[4] = { 0 };
	struct tuple t = tuple(1, 20000, 2);
	uint32_t reading = tsclock_keyed(&c, &t, START);

	(void)state;
	c.key.k0 ^= 1;
	assert_int_not_equal(tsclock_keyed(&c, &t, START), reading);
	c = clock_of_destinations;
	c.key.k1 ^= 1ull << 63;
	assert_int_not_equal(tsclock_keyed(&c, &t, START), reading);
	for (unsigned int i = 0; i < 256; i++) {
		t = tuple(1, 20000, (uint8_t)i);
		quarter[tsclock_keyed(&clock_of_destinations, &t, START) >> 30]++;
	}
	for (int i = 0; i < 4; i++)
		assert_in_range(quarter[i], 32, 96);
}

static void test_rate_and_base(void **state)
{
	struct tsclock c = clock_of_destinations;
	const struct tuple t = tuple(1, 20000, 2);
	uint32_t at_zero = tsclock_keyed(&c, &t, 0);

	(void)state;
	for (uint32_t ms = 1; ms; ms <<= 1)
		assert_int_equal(tsclock_keyed(&c, &t, ms), at_zero + ms);
	/* through 0, and past the wrap of the boot clock itself */
	assert_int_equal(tsclock_keyed(&c, &t, -at_zero), 0);
	assert_int_equal(tsclock_keyed(&c, &t, 0xffffffff) + 1, at_zero);
	c.base_ms = 12345;
	assert_int_equal(tsclock_keyed(&c, &t, 0), at_zero + 12345);
	/* a reboot: the boot clock starts again, the base makes up for it */
	c.base_ms = 40 * DAY;
	assert_int_equal(tsclock_keyed(&c, &t, 10), at_zero + 40 * DAY + 10);
}

/* --- a destination's own clock --- */

static void test_destination_clock(void **state)
{
	const uint64_t high = RECORD_LAST(5000, START);

	(void)state;
	/*
	 * nothing has left: the keyed clock; then on from the TSval that left, whatever the keyed
	 * clock says
	 */
	assert_int_equal(tsclock_destination(0, 777, START), 777);
	assert_int_equal(tsclock_destination(high, 777, START), 5000);
	assert_int_equal(tsclock_destination(high, 777, START + 250), 5250);
	assert_int_equal(tsclock_destination(high, 777, START + DAY), 5000 + DAY);
	/* a stamp from another processor's future is now */
	assert_int_equal(tsclock_destination(high, 777, START - 3), 5000);
	/* over both wraps */
	assert_int_equal(tsclock_destination(RECORD_LAST(0xfffffff0, 0xfffffff0), 0, 0x10), 0x10);
	/*
	 * a first TSval of 0 at time 0 cannot be told from none; it costs nothing: the keyed clock
	 * is there already
	 */
	assert_int_equal(tsclock_destination(RECORD_LAST(0, 0), 42, 1), 42);
}

/* How far TSVAL, leaving at NOW, takes the clock along. */
static uint32_t pushed(uint64_t high, uint32_t tsval, uint32_t now)
{
	return tsclock_destination(tsclock_advance(high, tsval, now), 0, now) -
	       tsclock_destination(high, 0, now);
}

static void test_advance(void **state)
{
	const uint64_t high = RECORD_LAST(5000, START);

	(void)state;
	assert_int_equal(tsclock_advance(0, 5000, START), high);
	/* a TSval that the clock shows anyway does not move it */
	assert_int_equal(tsclock_advance(high, 5000, START), high);
	assert_int_equal(pushed(high, 5100, START + 100), 0);
	assert_int_equal(pushed(high, 5099, START + 100), 0);
	/* one ahead of it does */
	assert_int_equal(tsclock_advance(high, 5101, START + 100), RECORD_LAST(5101, START + 100));
	assert_int_equal(tsclock_advance(high, 1005000, START + 1000),
			 RECORD_LAST(1005000, START + 1000));
	/* over the wrap */
	assert_int_equal(tsclock_advance(RECORD_LAST(0xffffffff, START), 9, START),
			 RECORD_LAST(9, START));
	/*
	 * but by no more than half of half the range, however long it was silent: that is a slow
	 * clock which fell behind
	 */
	assert_int_equal(pushed(high, 5000u - 26 * DAY, START + 100), 0);
	assert_int_equal(pushed(high, 5000u - 26 * DAY, START + 10 * DAY), 0);
}

/*
 * A client with a clock of 2 Hz whose connection is older than 25 days: its TSvals lie before the
 * clock, not ahead of it.
 */
static void test_slow_clock_does_not_push(void **state)
{
	/* that connection's SYN got the clock's reading; at 2 Hz it goes on from there */
	const uint32_t syn = 0x90000000;

	(void)state;
	for (uint32_t day = 1; day < 37; day++) {
		uint32_t now = START + day * DAY, slow = syn + day * 2 * 86400;

		/* the clock was pushed ahead a moment ago, a day ago, or never since */
		assert_int_equal(pushed(RECORD_LAST(syn + day * DAY, now - 1), slow, now), 0);
		assert_int_equal(pushed(RECORD_LAST(syn + (day - 1) * DAY, now - DAY), slow, now),
				 0);
		if (day <= 24)
			assert_int_equal(pushed(RECORD_LAST(syn, START), slow, now), 0);
	}
}

/*
 * Nothing ever runs ahead of the clock where all clients have slow ones, so nothing pushes it. It
 * goes on all the same, also when that lasts longer than 32 bits of milliseconds count.
 */
static void test_weeks_without_push(void **state)
{
	uint64_t high = 0;
	uint32_t last = 0;

	(void)state;
	for (uint32_t hour = 0; hour < 60 * 24; hour++) {
		uint32_t now = START + hour * HOUR,
			 tsval = tsclock_destination(high, 4000000000u, now);

		if (hour)
			assert_int_equal(tsval - last, HOUR);
		last = tsval;
		high = tsclock_advance(high, tsval, now); /* a SYN */
		high = tsclock_advance(high, tsval + 2,
				       now + 1000); /* and a segment, by a clock of 2 Hz */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_siphash_vectors),
		cmocka_unit_test(test_scope_destination),
		cmocka_unit_test(test_scope_tuple),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_rate_and_base),
		cmocka_unit_test(test_destination_clock),
		cmocka_unit_test(test_advance),
		cmocka_unit_test(test_slow_clock_does_not_push),
		cmocka_unit_test(test_weeks_without_push),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
