// SPDX-License-Identifier: GPL-2.0-or-later
/* The parser beyond the vectors: its fields, flags, and option lists by the hundred thousand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/edits.h"
#include "core/packet.h"

#define TCP_AT 20
#define PACKET_MAX (TCP_AT + 20 + WIRE_OPTS_MAX)

/* 192.0.2.1:40000 -> 198.51.100.1:80 with these options. Returns the length. */
static size_t make(uint8_t p[PACKET_MAX], uint16_t flags, const uint8_t *opts, size_t opts_len)
{
	static const uint8_t ip[20] = { 0x45, 0, 0,   0, 0, 1, 0,   0,	64,  6,
					0,    0, 192, 0, 2, 1, 198, 51, 100, 1 };
	static const uint8_t tcp[20] = { 0x9c, 0x40, 0,	   80,	 0x11, 0x22,
					 0x33, 0x44, 0xaa, 0xbb, 0xcc, 0xdd };
	size_t len = TCP_AT + 20 + opts_len;

	memcpy(p, ip, sizeof(ip));
	memcpy(p + TCP_AT, tcp, sizeof(tcp));
	if (opts_len)
		memcpy(p + TCP_AT + 20, opts, opts_len);
	p[3] = (uint8_t)len;
	p[TCP_AT + 12] = (uint8_t)((5 + opts_len / 4) << 4 | flags >> 8);
	p[TCP_AT + 13] = (uint8_t)flags;
	return len;
}

static void parse(struct wire_packet *ret, uint16_t flags, const uint8_t *opts, size_t opts_len)
{
	uint8_t p[PACKET_MAX];
	size_t len = make(p, flags, opts, opts_len);

	assert_int_equal(packet_parse(p, len, ret), WIRE_TCP);
}

static void test_fields(void **state)
{
	static const uint8_t opts[] = { 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8 };
	static const uint8_t src[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };
	static const uint8_t dst[16] = { [10] = 0xff, 0xff, 198, 51, 100, 1 };
	struct wire_packet pkt;

	(void)state;
	parse(&pkt, 0x1ff, opts, sizeof(opts));
	assert_memory_equal(pkt.tuple.src, src, 16);
	assert_memory_equal(pkt.tuple.dst, dst, 16);
	assert_memory_equal(&pkt.tuple.sport_be, "\x9c\x40", 2);
	assert_memory_equal(&pkt.tuple.dport_be, "\0\x50", 2);
	assert_int_equal(pkt.tcp_off, 20);
	assert_int_equal(pkt.seq, 0x11223344);
	assert_int_equal(pkt.ack, 0xaabbccdd);
	assert_int_equal(pkt.flags, 0x1ff);
	assert_int_equal(pkt.ts_count, 1);
	assert_int_equal(pkt.ts_at, 4);
	assert_int_equal(pkt.tsval, 0x01020304);
	assert_int_equal(pkt.tsecr, 0x05060708);
	assert_int_equal(pkt.opts_len, 12);
	assert_memory_equal(pkt.opts, opts, 12);
	assert_int_equal(pkt.bad_option, 0);
	assert_int_equal(pkt.auth_option, 0);
}

static void test_ipv6_tuple(void **state)
{
	uint8_t p[60] = { 0x60, [5] = 20, 6, 64 };
	struct wire_packet pkt;

	(void)state;
	for (int i = 0; i < 32; i++)
		p[8 + i] = (uint8_t)(0x80 + i);
	memcpy(p + 40, "\x01\x02\x03\x04", 4);
	p[40 + 12] = 0x50;
	assert_int_equal(packet_parse(p, sizeof(p), &pkt), WIRE_TCP);
	assert_memory_equal(pkt.tuple.src, p + 8, 16);
	assert_memory_equal(pkt.tuple.dst, p + 24, 16);
	assert_memory_equal(&pkt.tuple.sport_be, "\x01\x02", 2);
	assert_memory_equal(&pkt.tuple.dport_be, "\x03\x04", 2);
	assert_int_equal(pkt.tcp_off, 40);
}

static void test_reverse(void **state)
{
	struct tuple t = { .src = { 1, 2 }, .dst = { 3, 4 }, .sport_be = 5, .dport_be = 6 }, there,
		     back;

	(void)state;
	tuple_reverse(&there, &t);
	assert_int_equal(there.src[0], 3);
	assert_int_equal(there.dst[1], 2);
	assert_int_equal(there.sport_be, 6);
	tuple_reverse(&back, &there);
	assert_memory_equal(&back, &t, sizeof(t));
	/* the tuple is a map's key: padding would make equal tuples differ */
	assert_int_equal(sizeof(struct tuple), 36);
}

static void test_syn_flags(void **state)
{
	static const uint16_t syns[] = { 0x02,	0xc2, 0x1c2, 0x42,  0x82,
					 0x102, 0x22, 0x0a,  0xe02, 0xfea };
	static const uint16_t others[] = { 0x12, 0x03, 0x06,  0x00, 0x10, 0x11,
					   0x04, 0x14, 0x1d2, 0x16, 0x07 };
	struct wire_packet pkt;

	(void)state;
	for (size_t i = 0; i < sizeof(syns) / sizeof(syns[0]); i++) {
		parse(&pkt, syns[i], NULL, 0);
		assert_int_equal(pkt.flags, syns[i]);
		assert_true(wire_is_syn(&pkt));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		parse(&pkt, others[i], NULL, 0);
		assert_false(wire_is_syn(&pkt));
	}
}

/* The options as a receiver reads them: the loop of RFC 9293, written as it stands there. */
struct walk {
	int count, at[20];
	bool bad, auth;
};

static void walk_options(struct walk *w, const uint8_t *opts, int len)
{
	int i = 0;

	memset(w, 0, sizeof(*w));
	while (i < len) {
		int kind = opts[i], size;

		if (kind == 0)
			return;
		if (kind == 1) {
			i++;
			continue;
		}
		if (i + 1 >= len || opts[i + 1] < 2 || i + opts[i + 1] > len) {
			w->bad = true;
			return;
		}
		size = opts[i + 1];
		if (kind == 8 && size == 10)
			w->at[w->count++] = i + 2;
		if (kind == 19 || kind == 29)
			w->auth = true;
		i += size;
	}
}

static void check_options(const uint8_t *opts, size_t len)
{
	struct wire_packet pkt;
	struct walk w;
	struct edit e = { 0 };

	parse(&pkt, 0x10, opts, len);
	walk_options(&w, opts, (int)len);
	assert_int_equal(pkt.ts_count, w.count);
	assert_int_equal(pkt.bad_option, w.bad);
	assert_int_equal(pkt.auth_option, w.auth);
	if (w.count) {
		assert_int_equal(pkt.tsval, wire_get32(opts + w.at[w.count - 1]));
		assert_int_equal(pkt.tsecr, wire_get32(opts + w.at[w.count - 1] + 4));
	}
	for (int k = 0; k < WIRE_TS_MAX; k++) {
		int n = w.count - 1 - k; /* the last one is the first edit */

		if (n < 0 || w.auth) {
			assert_false(edit_timestamp(&pkt, k, DIRECTION_OUT, 5, &e));
			continue;
		}
		assert_true(edit_timestamp(&pkt, k, DIRECTION_OUT, 5, &e));
		assert_int_equal(e.off, 20 + w.at[n]);
		assert_int_equal(e.from, wire_get32(opts + w.at[n]));
		assert_int_equal(e.to, e.from + 5);
		if (!wire_get32(opts + w.at[n] + 4)) {
			assert_false(edit_timestamp(&pkt, k, DIRECTION_IN, 5, &e));
			continue;
		}
		assert_true(edit_timestamp(&pkt, k, DIRECTION_IN, 5, &e));
		assert_int_equal(e.off, 20 + w.at[n] + 4);
		assert_int_equal(e.to, e.from - 5);
	}
	assert_false(edit_timestamp(&pkt, 0, DIRECTION_OUT, 0, &e));
}

/* A list of plausible options, with an implausible byte now and then. */
static void random_options(uint8_t opts[WIRE_OPTS_MAX], size_t len)
{
	static const uint8_t kinds[] = {
		1, 1, 1, 8, 8, 8, 2, 3, 4, 5, 19, 29, 30, 34, 253, 254, 0
	};
	static const uint8_t sizes[] = { 0, 0, 4, 3, 2, 10 };
	size_t i = 0;

	for (size_t k = 0; k < len; k++)
		opts[k] = (uint8_t)random();
	while (i < len) {
		uint8_t kind = kinds[(size_t)random() % sizeof(kinds)], size;

		opts[i] = kind;
		if (kind < 2) {
			i++;
			continue;
		}
		size = kind == 8	      ? 10
		       : kind < sizeof(sizes) ? sizes[kind]
					      : (uint8_t)(2 + random() % 10);
		if (random() % 16 == 0)
			size = (uint8_t)(random() % 44);
		if (i + 1 < len)
			opts[i + 1] = size;
		/* an echo of 0 is a case of its own */
		if (kind == 8 && i + 10 <= len && random() % 4 == 0)
			memset(opts + i + 6, 0, 4);
		i += size > 1 ? size : 2;
	}
}

static void test_random_options(void **state)
{
	uint8_t opts[WIRE_OPTS_MAX];

	(void)state;
	srandom(7323);
	for (int n = 0; n < 300000; n++) {
		size_t len = 4 * (size_t)(random() % 11);

		random_options(opts, len);
		check_options(opts, len);
	}
}

/* All headers of which every byte is one of the few that matter to the walk. */
static void test_short_options(void **state)
{
	static const uint8_t bytes[] = { 0, 1, 2, 3, 8, 10, 19, 255 };
	uint8_t opts[4];

	(void)state;
	for (unsigned int n = 0; n < 8 * 8 * 8 * 8; n++) {
		for (int i = 0; i < 4; i++)
			opts[i] = bytes[n >> (3 * i) & 7];
		check_options(opts, sizeof(opts));
	}
}

/* Any bytes at all, in memory of exactly their size. */
static void test_random_bytes(void **state)
{
	(void)state;
	srandom(791);
	for (int n = 0; n < 200000; n++) {
		size_t len = (size_t)random() % 160;
		uint8_t *p = malloc(len ? len : 1);
		struct wire_packet pkt;

		assert_non_null(p);
		for (size_t i = 0; i < len; i++)
			p[i] = (uint8_t)random();
		if (len)
			p[0] = (uint8_t)(random() & 1 ? 0x45 + random() % 3 : 0x60);
		if (len > 9)
			p[9] = 6;
		if (len > 6 && p[0] == 0x60)
			p[6] = (uint8_t[]){ 6, 0, 43, 44, 51, 60, 135, 6 }[random() % 8];
		if (packet_parse(p, len, &pkt) == WIRE_TCP) {
			assert_true(pkt.tcp_off >= 20);
			assert_true(pkt.tcp_off + 20u + pkt.opts_len <= len);
			assert_true(pkt.ts_count <= WIRE_TS_MAX);
		}
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),	      cmocka_unit_test(test_ipv6_tuple),
		cmocka_unit_test(test_reverse),	      cmocka_unit_test(test_syn_flags),
		cmocka_unit_test(test_short_options), cmocka_unit_test(test_random_options),
		cmocka_unit_test(test_random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
