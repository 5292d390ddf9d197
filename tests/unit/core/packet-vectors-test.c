// SPDX-License-Identifier: GPL-2.0-or-later
/* The packets of tests/vectors/segments.txt through the parser and the rewriter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/packet.h"
#include "core/rewrite.h"
#include "vectors.h"

static struct vector *vectors;
static size_t n_vectors;

static const struct vector *find(const char *name)
{
	for (size_t i = 0; i < n_vectors; i++)
		if (!strcmp(vectors[i].name, name))
			return &vectors[i];
	fail_msg("there is no vector '%s'", name);
	return NULL;
}

/* Returns 1 when it went wrong. */
static int check(const struct vector *v)
{
	struct vector_result r;
	int wrong = 0;

	vector_apply(v, &r);
	if (r.is != v->is || r.counter != v->counter) {
		print_error("%s: status %d, counter %d; should be %d, %d\n", v->name, r.is,
			    r.counter, v->is, v->counter);
		wrong = 1;
	}
	if (memcmp(r.bytes, v->expect, v->len)) {
		vector_print_difference(v, "C", r.bytes, v->len);
		wrong = 1;
	}
	if (!r.changed != !memcmp(v->packet, v->expect, v->len)) {
		print_error("%s: %d options changed\n", v->name, r.changed);
		wrong = 1;
	}
	return wrong;
}

static void test_as_they_come(void **state)
{
	int wrong = 0;

	(void)state;
	for (size_t i = 0; i < n_vectors; i++)
		wrong += check(&vectors[i]);
	assert_int_equal(wrong, 0);
}

/* A packet gives the same results inside its frame. */
static void test_in_frames(void **state)
{
	struct vector v;
	int wrong = 0;

	(void)state;
	for (size_t i = 0; i < n_vectors; i++) {
		if (vectors[i].ether)
			continue;
		vector_wrap(&vectors[i], &v);
		wrong += check(&v);
	}
	assert_int_equal(wrong, 0);
}

/* The opposite shift undoes a shift, checksum and all. */
static void test_there_and_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];
		struct wire_packet pkt;
		uint8_t bytes[VECTOR_BYTES];

		memcpy(bytes, v->expect, v->len);
		if (vector_parse(v, bytes, v->len, &pkt) != WIRE_TCP ||
		    !memcmp(v->packet, v->expect, v->len))
			continue;
		/* an echo that became 0 means "none" from here on */
		if (v->dir == DIRECTION_IN && !pkt.tsecr)
			continue;
		assert_true(rewrite_shift(bytes, v->len, &pkt, v->dir, -v->shift) > 0);
		if (memcmp(bytes, v->packet, v->len))
			fail_msg("%s does not come back", v->name);
	}
}

/*
 * Every beginning of every packet, in memory of exactly that size: the sanitizer sees any byte too
 * far.
 */
static void test_every_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];
		struct vector_result whole;

		vector_apply(v, &whole);
		for (size_t len = 0; len <= v->len; len++) {
			uint8_t *data = malloc(len ? len : 1);
			struct wire_packet pkt;
			enum wire_status is;

			assert_non_null(data);
			memcpy(data, v->packet, len);
			is = vector_parse(v, data, len, &pkt);
			if (is == WIRE_TCP) {
				/* nothing but the data was cut */
				assert_int_equal(whole.is, WIRE_TCP);
				assert_memory_equal(&pkt, &whole.pkt, sizeof(pkt));
				rewrite_shift(data, len, &pkt, v->dir, v->shift);
			} else if (whole.is == WIRE_TCP) {
				assert_true(len < whole.pkt.tcp_off + 20u + whole.pkt.opts_len);
			}
			free(data);
		}
	}
}

/* How many options rewrite_shift() says it changed. */
static void test_changed_options(void **state)
{
	static const struct {
		const char *name;
		int changed;
	} cases[] = {
		{ "usual-v4-out-raw", 1 },
		{ "two-v4-out", 2 },
		{ "three-v6-in", 3 },
		{ "four-v4-out", 4 },
		{ "two-first-echo-zero-in", 1 },
		{ "before-and-after-eol-v4-out", 1 },
		{ "md5-then-ts-v4-out", 0 },
		{ "shift-0-v6-in", 0 },
		{ "ts-then-bad-v6-in", 1 },
		{ "syn-ts-then-bad", 0 },
		{ "odd-offset-syn", 1 },
	};
	struct vector_result r;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		vector_apply(find(cases[i].name), &r);
		assert_int_equal(r.changed, cases[i].changed);
	}
}

/* The file has vectors of each kind. */
static void test_of_each_kind(void **state)
{
	size_t changed = 0, other = 0, bad = 0, counted = 0;

	(void)state;
	for (size_t i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];

		changed += memcmp(v->packet, v->expect, v->len) != 0;
		other += v->is == WIRE_OTHER;
		bad += v->is == WIRE_BAD;
		counted += v->counter != VECTOR_NO_COUNTER;
	}
	print_message(
		"%zu vectors: %zu change, %zu are not TCP, %zu are malformed, %zu are counted\n",
		n_vectors, changed, other, bad, counted);
	assert_true(n_vectors >= 500 && changed >= 250 && other >= 40 && bad >= 80 &&
		    counted >= 140);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_each_kind),   cmocka_unit_test(test_as_they_come),
		cmocka_unit_test(test_in_frames),      cmocka_unit_test(test_changed_options),
		cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_every_cut),
	};
	int failed;

	vectors = vectors_load(&n_vectors);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(vectors);
	return failed;
}
