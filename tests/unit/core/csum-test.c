// SPDX-License-Identifier: GPL-2.0-or-later
/* The incremental checksum against one that adds everything up again. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/csum.h"
#include "core/wire.h"
#include "core/packet.h"
#include "core/rewrite.h"

#define HEADER 20
#define SEGMENT (HEADER + WIRE_OPTS_MAX + 5) /* odd on purpose */
#define PSEUDO 0x1a2bu			     /* stands for the pseudo header: never 0 */

static uint16_t full(const uint8_t *p, size_t len)
{
	uint32_t sum = PSEUDO;

	for (size_t i = 0; i < len; i++)
		if (i != 16 && i != 17)
			sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void check(uint8_t *p, uint32_t off, uint32_t to)
{
	uint32_t from = wire_get32(p + off);
	uint16_t before = full(p, SEGMENT), after;

	wire_put32(p + off, to);
	after = full(p, SEGMENT);
	if (csum_replace32(before, off, from, to) != after)
		fail_msg("offset %u, %08x -> %08x: %04x -> %04x, should be %04x", off, from, to,
			 before, csum_replace32(before, off, from, to), after);
}

static uint32_t random32(void)
{
	return (uint32_t)random() << 16 ^ (uint32_t)random();
}

/* Values where carries and the two zeroes of ones' complement meet, too. */
static uint32_t random_value(void)
{
	static const uint32_t ends[] = { 0,	     1,		 0xff,	     0x100,
					 0xffff,     0x10000,	 0x00ffff00, 0xff0000ff,
					 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	return random() & 1 ? random32()
			    : ends[(size_t)random() % (sizeof(ends) / sizeof(ends[0]))];
}

static void test_every_offset(void **state)
{
	uint8_t p[SEGMENT];

	(void)state;
	for (uint32_t off = 0; off < WIRE_OPTS_MAX; off++) {
		for (size_t i = 0; i < sizeof(p); i++)
			p[i] = (uint8_t)(i * 7 + 1);
		check(p, HEADER + off, 0);
		check(p, HEADER + off, 0xffffffff);
		check(p, HEADER + off, 0);
		check(p, HEADER + off, 0x00010203);
	}
}

static void test_random(void **state)
{
	uint8_t p[SEGMENT];

	(void)state;
	srandom(1624);
	for (int n = 0; n < 100000; n++) {
		int fill = (int)(random() % 4);

		for (size_t i = 0; i < sizeof(p); i++)
			p[i] = fill == 0 ? 0 : fill == 1 ? 0xff : (uint8_t)random();
		/* several changes of one segment, as with repeated options */
		for (int k = 0; k < 4; k++)
			check(p, HEADER + (uint32_t)random() % WIRE_OPTS_MAX, random_value());
	}
}

/* A checksum that ends up as 0 or as close to it as it gets. */
static void test_zero(void **state)
{
	uint8_t p[SEGMENT] = { 0 };

	(void)state;
	for (uint32_t off = HEADER; off < HEADER + 2; off++) {
		for (uint32_t n = 0; n < 0x20000; n++) {
			check(p, off, n);
			check(p, off, n << 8);
			check(p, off, n << 16 | 0xffff);
		}
	}
}

/*
 * No change, no other checksum. (0xffff, which no sender writes, may become 0: it means the same.)
 */
static void test_same_value(void **state)
{
	(void)state;
	for (uint32_t sum = 0; sum < 0xffff; sum++) {
		assert_int_equal(csum_replace32((uint16_t)sum, 20, 0x12345678, 0x12345678), sum);
		assert_int_equal(csum_replace32((uint16_t)sum, 21, 0x12345678, 0x12345678), sum);
	}
}

/* A wrong checksum stays wrong by as much. */
static void test_wrong_stays_wrong(void **state)
{
	(void)state;
	srandom(1071);
	for (int n = 0; n < 100000; n++) {
		uint32_t off = (uint32_t)random() % 40, from = random32(), to = random32();
		uint32_t error = 1 + (uint32_t)random() % 0xfffe, sum = (uint32_t)random() % 0xffff;
		uint32_t right = csum_replace32((uint16_t)sum, off, from, to);
		uint32_t wrong = csum_replace32((uint16_t)((sum + error) % 0xffff), off, from, to);

		assert_int_equal((right + error) % 0xffff, wrong % 0xffff);
	}
}

/* 03 03 07, then a timestamp whose value starts at byte 25 of the header. */
static void test_known(void **state)
{
	(void)state;
	assert_int_equal(csum_replace32(0x0e03, 25, 0xffffff00, 0x00012245), 0xc8df);
}

static void test_turned(void **state)
{
	(void)state;
	assert_int_equal(csum_at(0x11223344, 0), 0x11223344);
	assert_int_equal(csum_at(0x11223344, 38), 0x11223344);
	assert_int_equal(csum_at(0x11223344, 1), 0x44112233);
	assert_int_equal(csum_at(0x11223344, 39), 0x44112233);
}

/* Of a packet with LEN bytes of data: all of it added up once more, word by word, makes 0xffff. */
static uint32_t sum_of_segment(const uint8_t *p, size_t tcp_off, size_t len)
{
	uint64_t sum = IPPROTO_TCP + (len - tcp_off);

	for (size_t i = tcp_off == 20 ? 12 : 8; i < len; i++)
		sum += (i ^ tcp_off) & 1 ? p[i] : (uint64_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

/* Segments that the kernel hands over merged have a sum of the pseudo header alone. */
static void test_complete(void **state)
{
	static uint8_t p[65535];

	(void)state;
	for (int n = 0; n < 400; n++) {
		const size_t tcp_off = n & 1 ? 40 : 20,
			     data = n < 200 ? (size_t)n : random32() % 65000;
		const size_t len = tcp_off + 20 + data;
		struct wire_packet pkt;

		for (size_t i = 0; i < len; i++)
			p[i] = n & 2 ? (uint8_t)random() : 0xff;
		memset(p, 0, 8);
		p[0] = n & 1 ? 0x60 : 0x45;
		p[n & 1 ? 6 : 9] = IPPROTO_TCP;
		p[n & 1 ? 4 : 2] = (uint8_t)((n & 1 ? len - 40 : len) >> 8);
		p[n & 1 ? 5 : 3] = (uint8_t)(n & 1 ? len - 40 : len);
		p[tcp_off + 12] = 0x50;
		assert_int_equal(packet_parse(p, len, &pkt), WIRE_TCP);
		rewrite_complete_checksum(p, len, &pkt);
		assert_int_equal(sum_of_segment(p, tcp_off, len), 0xffff);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turned),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_every_offset),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_zero),
		cmocka_unit_test(test_same_value),
		cmocka_unit_test(test_wrong_stays_wrong),
		cmocka_unit_test(test_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
