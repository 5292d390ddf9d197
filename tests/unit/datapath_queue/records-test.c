// SPDX-License-Identifier: GPL-2.0-or-later
/* The record table in a file: against a naive model, over SIGKILL, damage and its bounds. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "datapath_queue/records.h"
#include "datapath_queue/hash_index.h"

static char dir[64], path[96];

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/records-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/records.map", dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir); /* nothing else was left behind */
}

static struct records_config config(uint32_t n)
{
	return (struct records_config){
		.records = n, .destinations = 16, .boot_id = "boot one", .random = { 1, 2 }
	};
}

static struct records *open_table(uint32_t n, int expected)
{
	struct records_config cfg = config(n);
	struct records *t = NULL;

	assert_int_equal(records_open(&t, path, &cfg), expected);
	assert_non_null(t);
	return t;
}

static struct tuple tuple(uint32_t n)
{
	struct tuple t = { .src = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
			   .dst = { [10] = 0xff, 0xff, 198, 51, 100, 2 } };

	t.sport_be = (uint16_t)n;
	memcpy(t.dst, &n, sizeof(n));
	return t;
}

/* A record all of whose words tell of one number, so that a mixture shows. */
static struct record record(uint32_t n)
{
	struct record r = { .last = (uint64_t)n << 32 | n,
			    .state = n & ~RECORD_FLAGS,
			    .shift = n,
			    .isn = n,
			    .syn_tsval = n,
			    .floor = n,
			    .seen_ms = n,
			    .syn_ms = n,
			    .base = n };

	memcpy(r.inside.src, &n, sizeof(n));
	memcpy(r.inside.dst, &n, sizeof(n));
	return r;
}

static bool is_whole(const struct record *r)
{
	struct record want = record(r->shift);

	return memcmp(r, &want, sizeof(want)) == 0;
}

/* Insert or replace; returns what records_insert() said. */
static int put(struct records *t, uint32_t key, uint32_t value)
{
	const struct tuple k = tuple(key);
	const struct record r = record(value);
	struct records_ref ref;
	int ret = 0;

	records_lock(t, &k, &ref);
	if (ref.record)
		records_replace(&ref, &r);
	else
		ret = records_insert(&ref, &k, &r);
	records_unlock(&ref);
	return ret;
}

/* The record's number, or -1. */
static int64_t get(struct records *t, uint32_t key)
{
	const struct tuple k = tuple(key);
	struct records_ref ref;
	int64_t ret = -1;

	records_lock(t, &k, &ref);
	if (ref.record) {
		assert_true(is_whole(ref.record));
		ret = ref.record->shift;
	}
	records_unlock(&ref);
	return ret;
}

static bool del(struct records *t, uint32_t key)
{
	const struct tuple k = tuple(key);
	struct records_ref ref;
	bool was;

	records_lock(t, &k, &ref);
	was = ref.record;
	if (was)
		records_delete(&ref);
	records_unlock(&ref);
	return was;
}

static uint32_t count_all(struct records *t)
{
	struct records_item items[7];
	uint32_t cursor = 0, n = 0;

	do
		n += records_read(t, &cursor, items, 7);
	while (cursor);
	return n;
}

static void test_insert_lookup_delete(void **state)
{
	struct records *t = open_table(100, 0);

	(void)state;
	assert_int_equal(get(t, 5), -1);
	assert_int_equal(put(t, 5, 50), 0);
	assert_int_equal(get(t, 5), 50);
	assert_int_equal(put(t, 5, 51), 0);
	assert_int_equal(get(t, 5), 51);
	assert_int_equal(get(t, 6), -1);
	assert_true(del(t, 5));
	assert_false(del(t, 5));
	assert_int_equal(get(t, 5), -1);
	records_close(t);
}

static void test_bound(void **state)
{
	struct records *t = open_table(1000, 0);

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(put(t, i, i), 0);
	assert_int_equal(put(t, 1000, 1), -ENOSPC);
	assert_int_equal(put(t, 999, 2), 0); /* what is there can change all the same */
	assert_int_equal(count_all(t), 1000);
	assert_true(del(t, 17));
	assert_int_equal(put(t, 1000, 1), 0);
	assert_int_equal(put(t, 1001, 1), -ENOSPC);
	records_close(t);
}

/* 200 000 random steps, the file closed and opened in between. */
static void test_against_a_model(void **state)
{
	enum { KEYS = 3000, BOUND = 2000 };
	static int64_t model[KEYS];
	struct records *t = open_table(BOUND, 0);
	uint32_t n = 0;

	(void)state;
	srandom(1);
	memset(model, 0xff, sizeof(model));
	for (uint32_t step = 0; step < 200000; step++) {
		uint32_t key = (uint32_t)random() % KEYS;

		switch (random() % 3) {
		case 0:
			assert_int_equal(get(t, key), model[key]);
			break;
		case 1:
			if (model[key] < 0 && n == BOUND) {
				assert_int_equal(put(t, key, step), -ENOSPC);
				break;
			}
			assert_int_equal(put(t, key, step), 0);
			n += model[key] < 0;
			model[key] = step;
			break;
		default:
			assert_int_equal(del(t, key), model[key] >= 0);
			n -= model[key] >= 0;
			model[key] = -1;
		}
		if (step % 20000 == 0) {
			assert_int_equal(count_all(t), n);
			records_close(t);
			t = open_table(BOUND, 1);
		}
	}
	for (uint32_t key = 0; key < KEYS; key++)
		assert_int_equal(get(t, key), model[key]);
	records_close(t);
}

static void test_what_a_restart_keeps(void **state)
{
	struct records *t = open_table(100, 0);
	const struct destination_key k = { .dst = "x" };

	(void)state;
	put(t, 1, 10);
	records_clock(t)->base_ms = 77;
	records_count(t, COUNTER_SYN_SEEN, 5);
	records_destination_lock(t, &k, true)->high = 99;
	records_destination_unlock(t);
	records_close(t);

	t = open_table(5000, 1); /* another bound takes a new file */
	assert_int_equal(records_limit(t), 100);
	assert_int_equal(get(t, 1), 10);
	assert_int_equal(records_clock(t)->base_ms, 77);
	assert_int_equal(records_counter(t, COUNTER_SYN_SEEN), 5);
	assert_int_equal(records_destination_lock(t, &k, false)->high, 99);
	records_destination_unlock(t);
	records_close(t);
}

/*
 * A child changes records as fast as it can until it is killed; what it leaves is whole, and so is
 * the index made from it.
 */
static void test_killed_while_it_writes(void **state)
{
	(void)state;
	records_close(open_table(500, 0));
	for (int round = 0; round < 60; round++) {
		struct records *t;
		pid_t pid = fork();
		uint32_t n = 0;

		assert_true(pid >= 0);
		if (pid == 0) {
			struct records_config cfg = config(500);

			if (records_open(&t, path, &cfg) != 1)
				_exit(1);
			for (uint32_t i = (uint32_t)round;; i++) {
				put(t, i * 7 % 600, i);
				if (i % 3 == 0)
					del(t, i * 5 % 600);
			}
		}
		usleep(2000 + (useconds_t)round * 150);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		t = open_table(500, 1);
		for (uint32_t key = 0; key < 600; key++)
			n += get(t, key) >= 0; /* asserts that it is whole */
		assert_int_equal(count_all(t), n);
		/* and all of the bound is there to be used: nothing leaked */
		for (uint32_t key = 0; key < 600; key++)
			del(t, key);
		for (uint32_t key = 0; key < 500; key++)
			assert_int_equal(put(t, key, key), 0);
		assert_int_equal(put(t, 500, 0), -ENOSPC);
		records_close(t);
	}
}

static void write_at(off_t at, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, len, at), len);
	close(fd);
}

static void expect_anew(int why)
{
	struct records *t = open_table(100, why);

	assert_int_equal(count_all(t), 0);
	assert_int_equal(put(t, 3, 3), 0);
	records_close(t);
	t = open_table(100, 1);
	assert_int_equal(get(t, 3), 3);
	records_close(t);
}

static void test_damaged_files(void **state)
{
	static const char noise[8192] = "this is something else";
	struct stat st;

	(void)state;
	close(open(path, O_CREAT | O_WRONLY, 0600));
	expect_anew(-EBADMSG); /* empty */
	assert_int_equal(truncate(path, 100), 0);
	expect_anew(-EBADMSG); /* cut in the header */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size / 2), 0);
	expect_anew(-EBADMSG); /* cut behind it */
	write_at(0, noise, sizeof(noise));
	expect_anew(-EBADMSG); /* foreign */
	write_at(8, "\xff\xff", 2);
	expect_anew(-EBADMSG); /* another version */
	write_at(24, "\xff\xff", 2);
	expect_anew(-EBADMSG); /* a bound that the check does not cover */
	assert_int_equal(stat(path, &st), 0);
	/* the first record's slot is neither used nor free */
	for (off_t at = 4096; at < st.st_size; at += 4096)
		write_at(at, "x", 1);
	expect_anew(-EBADMSG);
}

static void test_another_boot(void **state)
{
	struct records_config cfg = config(100);
	struct records *t = open_table(100, 0);

	(void)state;
	put(t, 1, 1);
	records_close(t);
	memcpy(cfg.boot_id, "boot two", 8);
	assert_int_equal(records_open(&t, path, &cfg), 0);
	assert_int_equal(get(t, 1), -1);
	records_close(t);
}

static void test_no_directory(void **state)
{
	struct records_config cfg = config(100);
	struct records *t = NULL;

	(void)state;
	assert_int_equal(records_open(&t, "/nowhere/at/all", &cfg), -ENOENT);
	assert_null(t);
}

static void touch_destination(struct records *t, unsigned int n, bool make)
{
	struct destination_key k = { .dst = { (uint8_t)n } };
	struct destination *d = records_destination_lock(t, &k, make);

	if (make && !d->high)
		d->high = n + 1;
	records_destination_unlock(t);
}

static bool has_destination(struct records *t, unsigned int n)
{
	struct destination_key k;
	struct destination d;
	int r;

	for (uint32_t i = 0; (r = records_destination_at(t, i, &k, &d)) >= 0; i++)
		if (r == 1 && k.dst[0] == n && d.high == n + 1)
			return true;
	return false;
}

static void test_destinations_least_recently_used_first(void **state)
{
	struct records *t = open_table(10, 0);

	(void)state;
	for (unsigned int i = 0; i < 16; i++)
		touch_destination(t, i, true);
	touch_destination(t, 0, false);
	touch_destination(t, 16, true);
	assert_true(has_destination(t, 0));
	assert_false(has_destination(t, 1));
	records_close(t);
	t = open_table(10, 1); /* the order is known after a restart, too */
	touch_destination(t, 17, true);
	assert_false(has_destination(t, 2));
	for (unsigned int i = 3; i < 18; i++)
		assert_true(has_destination(t, i));
	assert_true(has_destination(t, 0));
	records_close(t);
}

struct hammer {
	struct records *t;
	uint32_t first;
};

static void *hammer(void *arg)
{
	const struct hammer *h = arg;

	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t key = h->first + i % 97;

		put(h->t, key, i);
		put(h->t, 50000 + i % 3, i); /* that all of them use */
		if (i % 5 == 0)
			del(h->t, key);
		if (i % 10000 == 0)
			count_all(h->t);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct records *t = open_table(1000, 0);
	struct hammer h[4];
	pthread_t threads[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		h[i] = (struct hammer){ t, i * 1000 };
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, &h[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t key = 0; key < 5000; key++)
		get(t, key);
	assert_int_equal(get(t, 50000) >= 0, true);
	records_close(t);
}

#define FULL (1u << 18)

static bool all_is_backed(struct hash_index *t, void *user)
{
	(void)user;
	t->n_backed = t->n_slots;
	return true;
}

/*
 * How many keys a lookup compares in a full table depends on the table's length no more than a
 * coin's throws do: N keys in N buckets.
 */
static void test_flat_cost(void **state)
{
	const size_t slot_size = sizeof(struct hash_slot) + sizeof(struct tuple) + 4;
	uint32_t used_max = 0, longest = 0;
	uint64_t compared = 0;
	struct hash_index t = {
		.slots = calloc(FULL, slot_size),
		.slot_size = slot_size,
		.key_size = sizeof(struct tuple),
		.n_slots = FULL,
		.used_max = &used_max,
		.hash_key = { 3, 4 },
		.back = all_is_backed,
	};

	(void)state;
	assert_non_null(t.slots);
	assert_int_equal(hash_index_init(&t), 0);
	for (uint32_t i = 0; i < FULL; i++) {
		const struct tuple key = tuple(i);
		const uint32_t slot = hash_index_reserve(&t, &key);

		assert_int_not_equal(slot, HASH_NONE);
		hash_index_publish(&t, hash_index_bucket(&t, &key), slot);
	}
	for (uint32_t bucket = 0; bucket < t.n_buckets; bucket++) {
		uint32_t length = 0;

		for (uint32_t i = t.heads[bucket]; i != HASH_NONE; i = t.next[i])
			compared += ++length;
		longest = length > longest ? length : longest;
	}
	/* a half more than one on average; the longest of so many has 8 or 9 */
	assert_in_range(compared, FULL, FULL * 8 / 5);
	assert_in_range(longest, 1, 12);
	hash_index_destroy(&t);
	free(t.slots);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_insert_lookup_delete),
		TEST(test_bound),
		TEST(test_against_a_model),
		TEST(test_what_a_restart_keeps),
		TEST(test_killed_while_it_writes),
		TEST(test_damaged_files),
		TEST(test_another_boot),
		TEST(test_no_directory),
		TEST(test_destinations_least_recently_used_first),
		TEST(test_threads),
		TEST(test_flat_cost),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
