// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * state-test.c - the state file: saving, loading, and damaged files. The datapath is a pair of
 * arrays.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "state.h"

#define INTERVAL 60000u
#define HOLD 300000u
#define SAVED_AT 7654321u /* ms of the boot clock */
#define VERSION_AT 8	  /* offset of the version in the file */
#define RESERVE (record_max_advance(INTERVAL + STATE_SLACK_MS))

#define assert_after(a, b) assert_true((int32_t)((uint32_t)(a) - (uint32_t)(b)) > 0)

/* --- a datapath in memory --- */

#define RECORDS 4000
#define DESTINATIONS 300

struct datapath {
	uint32_t n_records, n_destinations;
	struct tuple tuples[RECORDS];
	struct record records[RECORDS];
	struct destination_key keys[DESTINATIONS];
	struct destination destinations[DESTINATIONS];
	uint32_t room; /* the most records that restore() takes; 0: no limit but the arrays */
	int each_error;
};

static int fake_each(struct datapath *dp, datapath_each_fn *fn, void *user)
{
	int r = 0;

	for (uint32_t i = 0; i < dp->n_records && r == 0; i++)
		r = fn(user, &dp->tuples[i], &dp->records[i]);
	return r ? r : dp->each_error;
}

static int fake_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user)
{
	int r = 0;

	for (uint32_t i = 0; i < dp->n_destinations && r == 0; i++)
		r = fn(user, &dp->keys[i], &dp->destinations[i]);
	return r;
}

static int fake_restore(struct datapath *dp, const struct tuple *t, const struct record *r)
{
	if (dp->n_records == (dp->room ? dp->room : RECORDS))
		return -E2BIG;
	dp->tuples[dp->n_records] = *t;
	dp->records[dp->n_records++] = *r;
	return 0;
}

static int fake_restore_destination(struct datapath *dp, const struct destination_key *k,
				    const struct destination *d)
{
	if (dp->n_destinations == DESTINATIONS)
		return -E2BIG;
	dp->keys[dp->n_destinations] = *k;
	dp->destinations[dp->n_destinations++] = *d;
	return 0;
}

static const struct datapath_ops ops = {
	.name = "memory",
	.each = fake_each,
	.each_destination = fake_each_destination,
	.restore = fake_restore,
	.restore_destination = fake_restore_destination,
};

/* --- a directory per test --- */

struct fixture {
	char dir[64];
	struct datapath saved, loaded;
	struct tsclock clock;
	struct state_loaded result;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/tsnatd-state-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	f->clock = (struct tsclock){ .key = { 1, 2 }, .scope = SCOPE_DESTINATION, .base_ms = 555 };
	*state = f;
	return 0;
}

static const char *path_of(const struct fixture *f, const char *name)
{
	static char path[2][128];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", f->dir, name);
	return path[turn];
}

static int teardown(void **state)
{
	static const char *const names[] = { "state", "state.new", "state.bad", "secret",
					     "secret.new" };
	struct fixture *f = *state;

	chmod(f->dir, 0700);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(path_of(f, names[i]));
	if (rmdir(f->dir) < 0) /* fails when other files are left */
		return -1;
	free(f);
	return 0;
}

static bool exists(const struct fixture *f, const char *name)
{
	return access(path_of(f, name), F_OK) == 0;
}

static size_t read_file(const struct fixture *f, const char *name, uint8_t *to, size_t size)
{
	FILE *file = fopen(path_of(f, name), "re");
	size_t n;

	assert_non_null(file);
	n = fread(to, 1, size, file);
	fclose(file);
	return n;
}

static void write_file(const struct fixture *f, const char *name, const void *data, size_t n)
{
	FILE *file = fopen(path_of(f, name), "we");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

/* --- contents --- */

static uint32_t rnd(void)
{
	return (uint32_t)random() << 16 ^ (uint32_t)random();
}

/* GENERATION is in every entry, so that a mixture of two saves would show. */
static void fill(struct datapath *dp, uint32_t records, uint32_t destinations, uint32_t generation,
		 uint32_t now)
{
	memset(dp, 0, sizeof(*dp));
	for (uint32_t i = 0; i < records; i++) {
		uint32_t age = rnd() % 200000, tsval = rnd();

		memcpy(dp->tuples[i].src, &generation, sizeof(generation));
		memcpy(dp->tuples[i].dst, &i, sizeof(i));
		dp->tuples[i].sport_be = (uint16_t)rnd();
		dp->records[i] = (struct record){
			.last = RECORD_LAST(tsval, now - age),
			.state = rnd() & ~RECORD_DEAD,
			.shift = rnd(),
			.isn = rnd(),
			.syn_tsval = tsval - rnd() % 1000,
			.floor = tsval - rnd() % 1000,
			.seen_ms = now - age + rnd() % (age + 1),
			.syn_ms = now - age - rnd() % 1000,
			.inside = { .src = { 10, 1, 2, 3 }, .sport_be = (uint16_t)rnd() },
			.base = tsval - rnd() % 1000,
		};
	}
	dp->n_records = records;
	for (uint32_t i = 0; i < destinations; i++) {
		memcpy(dp->keys[i].ext, &generation, sizeof(generation));
		memcpy(dp->keys[i].dst, &i, sizeof(i));
		dp->destinations[i] = (struct destination){
			.high = i % 3 ? RECORD_LAST(rnd() | 1, now - rnd() % 200000) : 0,
		};
	}
	dp->n_destinations = destinations;
}

static void save(struct fixture *f, uint64_t now)
{
	assert_int_equal(state_save(f->dir, &ops, &f->saved, &f->clock, now, INTERVAL), 0);
}

static int load(struct fixture *f, uint64_t now)
{
	memset(&f->loaded, 0, sizeof(f->loaded));
	return state_load(f->dir, &ops, &f->loaded, now, &f->result);
}

static uint32_t age_of(uint64_t now, uint32_t stamp)
{
	return (uint32_t)now - stamp;
}

static void assert_same_record(const struct record *was, uint64_t then, const struct record *is,
			       uint64_t now)
{
	const uint32_t kept = RECORD_LIVE | RECORD_FIN_OUT | RECORD_FIN_IN | RECORD_RESET |
			      RECORD_NO_LAST | RECORD_FLOOR;

	/* The most that TSval can be at a crash just before the next save. */
	assert_int_equal(RECORD_LAST_TSVAL(is->last), RECORD_LAST_TSVAL(was->last) + RESERVE);
	assert_int_equal(age_of(now, RECORD_LAST_MS(is->last)),
			 age_of(then, RECORD_LAST_MS(was->last)));
	assert_int_equal(age_of(now, is->seen_ms), age_of(then, was->seen_ms));
	assert_int_equal(age_of(now, is->syn_ms), age_of(then, was->syn_ms));
	assert_int_equal(is->state & kept, was->state & kept);
	assert_int_equal(is->state & ~(RECORD_FLAGS & ~RECORD_DEAD), 0);
	assert_int_equal(record_is_open(is), record_is_open(was));
	assert_int_equal(is->shift, was->shift);
	assert_int_equal(is->isn, was->isn);
	assert_int_equal(is->syn_tsval, was->syn_tsval);
	assert_int_equal(is->floor, was->floor);
	if (decide_has_base(was)) {
		assert_true(decide_has_base(is));
		assert_int_equal(is->base, was->base);
	}
	assert_memory_equal(&is->inside, &was->inside, sizeof(is->inside));
}

static void assert_all_there(const struct fixture *f, uint64_t then, uint64_t now)
{
	const struct datapath *was = &f->saved, *is = &f->loaded;

	assert_int_equal(f->result.records, was->n_records);
	assert_int_equal(f->result.destinations, was->n_destinations);
	assert_int_equal(is->n_records, was->n_records);
	assert_int_equal(is->n_destinations, was->n_destinations);
	assert_memory_equal(is->tuples, was->tuples, sizeof(is->tuples));
	assert_memory_equal(is->keys, was->keys, sizeof(is->keys));
	for (uint32_t i = 0; i < was->n_records; i++)
		assert_same_record(&was->records[i], then, &is->records[i], now);
	for (uint32_t i = 0; i < was->n_destinations; i++) {
		const struct destination *a = &was->destinations[i], *b = &is->destinations[i];

		assert_int_equal(!a->high, !b->high);
		if (!a->high)
			continue;
		assert_int_equal(RECORD_LAST_TSVAL(b->high), RECORD_LAST_TSVAL(a->high) + RESERVE);
		assert_int_equal(age_of(now, RECORD_LAST_MS(b->high)),
				 age_of(then, RECORD_LAST_MS(a->high)));
	}
}

/* --- saved and loaded --- */

static void test_round_trip(void **state)
{
	/* Boot clocks at the save and at the load: short and long after boot, and wrapped. */
	static const uint64_t thens[] = { SAVED_AT, 0xffffff00, 0x100000050, 0x300000000 };
	static const uint64_t nows[] = { 0, 4000, SAVED_AT, 0xfffffff0, 0x100000010 };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(thens) / sizeof(thens[0]); i++) {
		for (size_t k = 0; k < sizeof(nows) / sizeof(nows[0]); k++) {
			fill(&f->saved, 500, 90, 1, (uint32_t)thens[i]);
			save(f, thens[i]);
			assert_false(exists(f, "state.new"));
			assert_int_equal(load(f, nows[k]), 0);
			assert_null(f->result.unusable);
			assert_all_there(f, thens[i], nows[k]);
			assert_int_equal(f->result.clock_ms, (uint32_t)thens[i] + f->clock.base_ms +
								     INTERVAL + STATE_SLACK_MS);
		}
	}
	/* Loading does not change the file. */
	assert_int_equal(load(f, 1), 0);
	assert_int_equal(f->result.records, 500);
}

static void test_empty_table(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, 5), -ENOENT);
	assert_null(f->result.unusable);
	assert_false(exists(f, "state.bad"));
	save(f, SAVED_AT);
	assert_int_equal(load(f, 5), 0);
	assert_int_equal(f->result.records + f->result.destinations, 0);
	assert_int_equal(f->result.clock_ms, SAVED_AT + 555 + INTERVAL + STATE_SLACK_MS);
}

static void test_what_is_not_kept(void **state)
{
	struct fixture *f = *state;
	struct record *r = &f->saved.records[0];

	/* The generation and the sweeper's flag belong to the former boot. */
	fill(&f->saved, 1, 0, 1, SAVED_AT);
	r->state = RECORD_DEAD | RECORD_LIVE | RECORD_ANSWERED | 77 * RECORD_GENERATION;
	/* Another processor may write a stamp after the save took its time: it is in the future. */
	r->seen_ms = SAVED_AT + 40;
	r->last = RECORD_LAST(1000, SAVED_AT + 40);
	save(f, SAVED_AT);
	assert_int_equal(load(f, 99), 0);
	r = &f->loaded.records[0];
	assert_int_equal(r->state, RECORD_LIVE | RECORD_ANSWERED);
	assert_int_equal(r->seen_ms, 99);
	assert_int_equal(RECORD_LAST_MS(r->last), 99);
}

/* With a lower limit than before, as many records are restored as fit. */
static void test_smaller_table(void **state)
{
	struct fixture *f = *state;

	fill(&f->saved, 100, 7, 1, SAVED_AT);
	save(f, SAVED_AT);
	memset(&f->loaded, 0, sizeof(f->loaded));
	f->loaded.room = 60;
	assert_int_equal(state_load(f->dir, &ops, &f->loaded, 5, &f->result), 0);
	assert_int_equal(f->result.records, 60);
	assert_int_equal(f->result.destinations, 7);
}

/* --- clocks over a reboot --- */

static uint32_t syn_tsval(const struct record *r, const struct destination *d,
			  const struct tsclock *c, enum policy policy, uint32_t tsval, uint64_t now)
{
	const struct tuple t = { .src = { 1 }, .dst = { 2 } };
	struct decide_input in = {
		.isn = 1,
		.tsval = tsval,
		.now_ms = (uint32_t)now,
		.hold_ms = HOLD,
		.policy = policy,
	};

	if (policy == POLICY_UNIFY)
		decide_set_clock(&in, c, &t, d);
	return tsval + decide(r, &in).shift;
}

/*
 * AFTER_MS after a save the power fails, while a client whose clock runs at HZ is sending. The
 * first SYN after the reboot must be after all TSvals that the server saw, by less than 2^30.
 */
static void reboot(struct fixture *f, enum policy policy, enum scope scope, uint32_t hz,
		   uint32_t after_ms, uint64_t up_ms)
{
	struct tsclock *c = &f->clock;
	struct record *r = &f->saved.records[0];
	uint64_t now = SAVED_AT;
	uint32_t tsval, last, first;

	c->scope = scope;
	fill(&f->saved, 1, 1, 1, (uint32_t)now);
	memset(&f->saved.destinations[0], 0, sizeof(f->saved.destinations[0]));
	first = syn_tsval(NULL, NULL, c, policy, 0xf0000000, now);
	*r = (struct record){
		.last = RECORD_LAST(first, (uint32_t)now),
		.state = RECORD_ESTABLISHED,
		.seen_ms = (uint32_t)now,
	};
	f->saved.destinations[0].high = RECORD_LAST(first, (uint32_t)now);
	save(f, now);

	/* After the save the connection goes on; with unify, other connections use the clock. */
	last = first + (uint32_t)((uint64_t)after_ms * hz / 1000);
	if (policy == POLICY_UNIFY && scope == SCOPE_DESTINATION) {
		struct destination d = f->saved.destinations[0];

		d.high = tsclock_advance(d.high, last, (uint32_t)now + after_ms);
		tsval = syn_tsval(NULL, &d, c, policy, 5, now + after_ms);
		last = ts_after(tsval, last) ? tsval : last;
	} else if (policy == POLICY_UNIFY) {
		tsval = syn_tsval(NULL, NULL, c, policy, 5, now + after_ms);
		last = ts_after(tsval, last) ? tsval : last;
	}

	assert_int_equal(load(f, up_ms), 0);
	c->base_ms = f->result.clock_ms - (uint32_t)up_ms;
	tsval = syn_tsval(&f->loaded.records[0], &f->loaded.destinations[0], c, policy,
			  last - 1000000000, up_ms + 50);
	assert_after(tsval, last);
	assert_true(tsval - last < 1u << 30);
	/* If the destination has the clock, the same holds for a tuple that was not used before. */
	if (policy == POLICY_UNIFY && scope == SCOPE_DESTINATION) {
		tsval = syn_tsval(NULL, &f->loaded.destinations[0], c, policy, 77, up_ms + 50);
		assert_after(tsval, last);
		assert_true(tsval - last < 1u << 30);
		/* It holds for the keyed clock alone, too, if no client was faster. */
		tsval = syn_tsval(NULL, NULL, c, policy, 77, up_ms + 50);
		if (hz <= 1000) {
			assert_after(tsval, last);
			assert_true(tsval - last < 1u << 30);
		}
	}
}

static void test_reboot(void **state)
{
	static const uint32_t hz[] = { 2, 100, 1000, 1000000 };
	static const uint32_t after_ms[] = { 0, 1, 30000, INTERVAL, INTERVAL + STATE_SLACK_MS };
	static const uint64_t up_ms[] = { 300, 20000, 0xffffffff };
	struct fixture *f = *state;

	for (size_t h = 0; h < sizeof(hz) / sizeof(hz[0]); h++)
		for (size_t a = 0; a < sizeof(after_ms) / sizeof(after_ms[0]); a++)
			for (size_t u = 0; u < sizeof(up_ms) / sizeof(up_ms[0]); u++) {
				reboot(f, POLICY_REPAIR, SCOPE_DESTINATION, hz[h], after_ms[a],
				       up_ms[u]);
				reboot(f, POLICY_UNIFY, SCOPE_DESTINATION, hz[h], after_ms[a],
				       up_ms[u]);
				reboot(f, POLICY_UNIFY, SCOPE_TUPLE, hz[h], after_ms[a], up_ms[u]);
			}
}

/*
 * The server may hold any TSval from the saved one to the restored one. The next SYN may have any
 * TSval, which may be after the one and before the other.
 */
static void test_reboot_any_clock(void **state)
{
	struct fixture *f = *state;
	struct record *r = &f->saved.records[0];
	const uint32_t last = 0x87654321;

	for (uint32_t n = 0; n < 4000; n++) {
		uint32_t tsval = last + n * 1073741, left;

		fill(&f->saved, 1, 0, 1, SAVED_AT);
		*r = (struct record){
			.last = RECORD_LAST(last, SAVED_AT - 1000),
			.seen_ms = SAVED_AT - 1000,
			.isn = 7,
			.state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT |
				 RECORD_FIN_IN,
		};
		if (n == 0)
			save(f, SAVED_AT);
		assert_int_equal(load(f, 5000), 0);
		left = syn_tsval(&f->loaded.records[0], NULL, &f->clock, POLICY_REPAIR, tsval,
				 5100);
		assert_after(left, last);
		/* The server's view if a clock of 1 kHz ran until a crash just before the next
		 * save. */
		assert_after(left, last + INTERVAL + STATE_SLACK_MS);
	}
}

/* Boot after boot without traffic: each time the clock advances by interval and slack. */
static void test_reboot_loop(void **state)
{
	struct fixture *f = *state;
	const struct tuple t = { .src = { 1 }, .dst = { 2 } };
	uint32_t last = 0, reading;

	for (uint32_t n = 0; n < 20; n++) {
		reading = tsclock_keyed(&f->clock, &t, 5000);
		if (n) {
			assert_after(reading, last);
			assert_true(reading - last <= INTERVAL + STATE_SLACK_MS + 5000);
		}
		last = reading;
		save(f, 5000);
		assert_int_equal(load(f, 5000), 0);
		f->clock.base_ms = f->result.clock_ms - 5000;
	}
}

/* --- damaged files (CASES 38) --- */

#define SIZE_MAX_FILE 1000000
static uint8_t image[SIZE_MAX_FILE];

/* Write the SIZE bytes at IMAGE as the state file, which must be set aside. Returns the reason. */
static const char *set_aside(struct fixture *f, size_t size)
{
	static uint8_t bad[SIZE_MAX_FILE];

	remove(path_of(f, "state.bad"));
	write_file(f, "state", image, size);
	assert_int_equal(load(f, 5), -ENOENT);
	assert_non_null(f->result.unusable);
	assert_false(exists(f, "state"));
	assert_int_equal(read_file(f, "state.bad", bad, sizeof(bad)), size);
	assert_memory_equal(bad, image, size);
	assert_int_equal(f->result.records + f->result.destinations, 0);
	assert_int_equal(f->loaded.n_records + f->loaded.n_destinations, 0);
	return f->result.unusable;
}

static size_t good_image(struct fixture *f, uint32_t records, uint32_t destinations)
{
	fill(&f->saved, records, destinations, 1, SAVED_AT);
	save(f, SAVED_AT);
	return read_file(f, "state", image, sizeof(image));
}

static void test_damaged(void **state)
{
	struct fixture *f = *state;
	size_t n = good_image(f, 50, 9);

	assert_string_equal(set_aside(f, 0), "it is empty");
	for (size_t cut = 1; cut < n; cut += cut < 100 ? 1 : 97)
		assert_non_null(strstr(set_aside(f, cut), "cut short"));
	assert_non_null(strstr(set_aside(f, n - 1), "cut short"));
	image[n] = 0;
	assert_non_null(strstr(set_aside(f, n + 1), "too long"));
	assert_non_null(strstr(set_aside(f, 2 * n), "too long"));

	image[VERSION_AT]++;
	assert_non_null(strstr(set_aside(f, n), "version"));
	image[VERSION_AT]--;
	memset(image, 0, n);
	assert_non_null(strstr(set_aside(f, n), "does not begin like a state file"));
	assert_non_null(set_aside(f, 4096));
	/* Saving and loading still work. */
	save(f, SAVED_AT);
	assert_int_equal(load(f, 5), 0);
	assert_int_equal(f->result.records, 50);
}

/* Any bit of any byte, also in the header. */
static void test_flipped_bits(void **state)
{
	struct fixture *f = *state;
	size_t n = good_image(f, 3, 2);

	for (size_t i = 0; i < n; i++) {
		image[i] ^= (uint8_t)(1u << i % 8);
		set_aside(f, n);
		image[i] ^= (uint8_t)(1u << i % 8);
	}
	write_file(f, "state", image, n);
	assert_int_equal(load(f, 5), 0);
}

static void test_not_a_file(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkdir(path_of(f, "state"), 0700), 0);
	assert_int_equal(load(f, 5), -ENOENT);
	assert_string_equal(f->result.unusable, "it is not a file");
	assert_int_equal(f->result.aside_error, 0);
	assert_false(exists(f, "state"));
	save(f, SAVED_AT);
	assert_int_equal(load(f, 5), 0);
	/* A pipe without a writer. */
	remove(path_of(f, "state"));
	remove(path_of(f, "state.bad"));
	assert_int_equal(mkfifo(path_of(f, "state"), 0600), 0);
	assert_int_equal(load(f, 5), -ENOENT);
	assert_string_equal(f->result.unusable, "it is not a file");
	assert_true(exists(f, "state.bad"));
}

/* A crash between the temporary's fsync and its rename. */
static void test_valid_temporary(void **state)
{
	struct fixture *f = *state;
	size_t n = good_image(f, 40, 5);

	/* No state file: the crash was in the first save. */
	remove(path_of(f, "state"));
	write_file(f, "state.new", image, n);
	assert_int_equal(load(f, 5), 0);
	assert_null(f->result.unusable);
	assert_all_there(f, SAVED_AT, 5);
	/* An empty state file, and one with a bad checksum. */
	write_file(f, "state", "", 0);
	assert_int_equal(load(f, 5), 0);
	assert_string_equal(f->result.unusable, "it is empty");
	assert_all_there(f, SAVED_AT, 5);
	image[n - 1] ^= 1;
	write_file(f, "state", image, n);
	assert_int_equal(load(f, 5), 0);
	assert_string_equal(f->result.unusable, "its checksum is wrong");
	assert_all_there(f, SAVED_AT, 5);
	assert_true(exists(f, "state.bad"));
	/* A truncated temporary is not used, and does not disturb a good state file. */
	write_file(f, "state", image, n);
	image[n - 1] ^= 1;
	write_file(f, "state.new", image, n / 2);
	assert_int_equal(load(f, 5), -ENOENT);
	assert_string_equal(f->result.unusable, "its checksum is wrong");
	write_file(f, "state", image, n);
	assert_int_equal(load(f, 5), 0);
	assert_null(f->result.unusable);
	/* The next save removes it. */
	save(f, SAVED_AT);
	assert_false(exists(f, "state.new"));
}

/* A valid state file is used rather than a temporary, which was never renamed. */
static void test_file_before_temporary(void **state)
{
	struct fixture *f = *state;
	size_t n = good_image(f, 40, 5);

	write_file(f, "state.new", image, n);
	fill(&f->saved, 20, 3, 2, SAVED_AT);
	save(f, SAVED_AT);
	write_file(f, "state.new", image, n);
	assert_int_equal(load(f, 5), 0);
	assert_all_there(f, SAVED_AT, 5);
}

/* --- failures --- */

/* Run FN as a user without privileges. */
static void as_nobody(void (*fn)(struct fixture *), struct fixture *f)
{
	bool root = geteuid() == 0;

	if (root)
		assert_int_equal(seteuid(65534), 0);
	fn(f);
	if (root)
		assert_int_equal(seteuid(0), 0);
}

static void save_fails(struct fixture *f)
{
	int r = state_save(f->dir, &ops, &f->saved, &f->clock, SAVED_AT, INTERVAL);
	struct siphash_key key;

	assert_int_equal(r, -EACCES);
	assert_int_equal(state_secret(f->dir, &key), -EACCES);
}

static void test_unwritable_directory(void **state)
{
	struct fixture *f = *state;
	struct siphash_key key;

	good_image(f, 40, 5);
	chmod(f->dir, geteuid() == 0 ? 0755 : 0500);
	as_nobody(save_fails, f);
	chmod(f->dir, 0700);
	assert_int_equal(load(f, 5), 0);
	assert_all_there(f, SAVED_AT, 5);
	/* The directory does not exist. */
	assert_int_equal(state_save("/nonexistent/dir", &ops, &f->saved, &f->clock, SAVED_AT,
				    INTERVAL),
			 -ENOENT);
	assert_int_equal(state_load("/nonexistent/dir", &ops, &f->loaded, 5, &f->result), -ENOENT);
	assert_int_equal(state_secret("/nonexistent/dir", &key), -ENOENT);
}

/* The state file was not used for the reason WHY, but is kept as "state.bad". */
static void assert_aside(struct fixture *f, const char *why, size_t n)
{
	static uint8_t bad[SIZE_MAX_FILE];

	assert_string_equal(f->result.unusable, why);
	assert_int_equal(f->result.aside_error, 0);
	assert_false(exists(f, "state"));
	assert_int_equal(read_file(f, "state.bad", bad, sizeof(bad)), n);
	assert_memory_equal(bad, image, n);
}

static void load_finds_none(struct fixture *f)
{
	assert_int_equal(load(f, 5), -ENOENT);
}

/* A file that cannot be opened must not count as missing: the next save would replace it. */
static void test_unreadable(void **state)
{
	struct fixture *f = *state;
	size_t n = good_image(f, 40, 5);
	struct rlimit old, none;

	assert_int_equal(chmod(path_of(f, "state"), 0000), 0);
	assert_int_equal(chmod(f->dir, 0777), 0);
	as_nobody(load_finds_none, f);
	assert_int_equal(chmod(f->dir, 0700), 0);
	assert_int_equal(chmod(path_of(f, "state.bad"), 0600), 0);
	assert_aside(f, "Permission denied", n);

	write_file(f, "state", image, n);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	f->loaded.n_records = 0;
	assert_int_equal(state_load(f->dir, &ops, &f->loaded, 5, &f->result), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_aside(f, "Too many open files", n);
	assert_int_equal(f->loaded.n_records, 0);
}

/* "state.bad" cannot be replaced: the error is in aside_error. */
static void test_cannot_set_aside(void **state)
{
	struct fixture *f = *state;

	write_file(f, "state", "nonsense", 8);
	assert_int_equal(mkdir(path_of(f, "state.bad"), 0700), 0);
	assert_int_equal(load(f, 5), -ENOENT);
	assert_string_equal(f->result.unusable, "it is cut short");
	assert_int_equal(f->result.aside_error, -EISDIR);
	assert_true(exists(f, "state"));
}

/* Run FN in a child process. Returns its exit status, or -1 when a signal ended it. */
static int in_child(int (*fn)(struct fixture *), struct fixture *f)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn(f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define MAY_NOT 77

/* A file system with room for one and a half states. It goes with the process. */
static int fill_a_disk(struct fixture *f)
{
	struct stat st;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", f->dir, "tmpfs", 0, "size=64k") < 0)
		return MAY_NOT;
	fill(&f->saved, 300, 5, 1, SAVED_AT); /* some 150 bytes each */
	if (state_save(f->dir, &ops, &f->saved, &f->clock, SAVED_AT, INTERVAL) != 0)
		return 1;
	if (state_save(f->dir, &ops, &f->saved, &f->clock, SAVED_AT, INTERVAL) != -ENOSPC)
		return 2;
	/* The partial temporary is gone, the old file is not. */
	if (exists(f, "state.new") || stat(path_of(f, "state"), &st) < 0 || st.st_size < 30000)
		return 3;
	return load(f, 5) == 0 && f->result.records == 300 ? 0 : 4;
}

static void test_full_disk(void **state)
{
	int r = in_child(fill_a_disk, *state);

	if (r == MAY_NOT)
		skip();
	assert_int_equal(r, 0);
}

/* A limit on the file size. Whichever write fails, the old file stays. */
static void test_no_room(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, small;
	size_t n = good_image(f, 300, 5);
	int r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t limit = 0; limit < n; limit += 1777) {
		struct datapath *bigger = &f->loaded;

		fill(bigger, 301, 5, 2, SAVED_AT);
		small = (struct rlimit){ .rlim_cur = limit, .rlim_max = old.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		r = state_save(f->dir, &ops, bigger, &f->clock, SAVED_AT, INTERVAL);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(r, -EFBIG);
		assert_false(exists(f, "state.new"));
		assert_int_equal(load(f, 5), 0);
		assert_null(f->result.unusable);
		assert_all_there(f, SAVED_AT, 5);
	}
	signal(SIGXFSZ, SIG_DFL);
}

/* The walk through the records fails: the old file is not replaced. */
static void test_walk_fails(void **state)
{
	struct fixture *f = *state;

	good_image(f, 40, 5);
	f->saved.n_records = 20;
	f->saved.each_error = -EIO;
	assert_int_equal(state_save(f->dir, &ops, &f->saved, &f->clock, SAVED_AT, INTERVAL), -EIO);
	assert_int_equal(load(f, 5), 0);
	assert_int_equal(f->result.records, 40);
}

static void test_mode(void **state)
{
	struct fixture *f = *state;
	mode_t mask = umask(0);
	struct siphash_key key;
	struct stat st;

	save(f, SAVED_AT);
	assert_int_equal(state_secret(f->dir, &key), 0);
	umask(mask);
	assert_int_equal(stat(path_of(f, "state"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(path_of(f, "secret"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

/* --- the secret --- */

static void test_secret(void **state)
{
	struct fixture *f = *state;
	struct siphash_key first, key;

	assert_int_equal(state_secret(f->dir, &first), 0);
	assert_true(first.k0 != 0 && first.k1 != 0 && first.k0 != first.k1);
	assert_false(exists(f, "secret.new"));
	for (int i = 0; i < 3; i++) {
		key = (struct siphash_key){ 0 };
		assert_int_equal(state_secret(f->dir, &key), 0);
		assert_memory_equal(&key, &first, sizeof(key));
	}
	/* After the file is removed a new secret is made and kept. */
	remove(path_of(f, "secret"));
	assert_int_equal(state_secret(f->dir, &key), 0);
	assert_memory_not_equal(&key, &first, sizeof(key));
	assert_int_equal(state_secret(f->dir, &first), 0);
	assert_memory_equal(&key, &first, sizeof(key));
}

static void test_secret_cut_short(void **state)
{
	struct fixture *f = *state;
	struct siphash_key key, again;
	struct stat st;

	for (size_t n = 0; n < sizeof(key); n += 5) {
		write_file(f, "secret", "0123456789abcdef", n);
		chmod(path_of(f, "secret"), 0600);
		assert_int_equal(state_secret(f->dir, &key), 0);
		assert_memory_not_equal(&key, "0123456789abcdef", sizeof(key));
		assert_int_equal(stat(path_of(f, "secret"), &st), 0);
		assert_int_equal(st.st_size, sizeof(key));
		assert_int_equal(st.st_mode & 07777, 0600);
		assert_int_equal(state_secret(f->dir, &again), 0);
		assert_memory_equal(&key, &again, sizeof(key));
	}
	/* A temporary that a crash left is overwritten. */
	remove(path_of(f, "secret"));
	write_file(f, "secret.new", "0123456789abcdef", 7);
	assert_int_equal(state_secret(f->dir, &key), 0);
	assert_int_equal(stat(path_of(f, "secret"), &st), 0);
	assert_int_equal(st.st_size, sizeof(key));
}

/* A secret that cannot be read must not be replaced: all clocks would step. */
static void test_secret_unreadable(void **state)
{
	struct fixture *f = *state;
	struct siphash_key key = { 7, 7 };

	assert_int_equal(mkdir(path_of(f, "secret"), 0700), 0);
	assert_int_equal(state_secret(f->dir, &key), -EISDIR);
	assert_true(key.k0 == 7 && key.k1 == 7);
}

/* --- killed while it saves --- */

#define ROUNDS 250

/* In shared memory: the generation of the last save that was completed. */
static volatile uint32_t *saved_generation;

/* Microseconds that one save takes on this machine. */
static uint32_t cost_of_save(struct fixture *f)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 8; i++)
		save(f, SAVED_AT);
	clock_gettime(CLOCK_MONOTONIC, &b);
	remove(path_of(f, "state"));
	return (uint32_t)((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000) / 8;
}

static void save_without_end(struct fixture *f)
{
	for (uint32_t generation = *saved_generation + 1;; generation++) {
		fill(&f->saved, 200 + generation % 1000, 20 + generation % 100, generation,
		     SAVED_AT);
		if (state_save(f->dir, &ops, &f->saved, &f->clock, SAVED_AT, INTERVAL) < 0)
			_exit(EXIT_FAILURE);
		*saved_generation = generation;
	}
}

static void assert_one_generation(const struct datapath *dp, uint32_t generation)
{
	assert_int_equal(dp->n_records, 200 + generation % 1000);
	assert_int_equal(dp->n_destinations, 20 + generation % 100);
	for (uint32_t i = 0; i < dp->n_records; i++)
		assert_memory_equal(dp->tuples[i].src, &generation, sizeof(generation));
	for (uint32_t i = 0; i < dp->n_destinations; i++)
		assert_memory_equal(dp->keys[i].ext, &generation, sizeof(generation));
}

static void test_killed(void **state)
{
	struct fixture *f = *state;
	uint32_t left_temporary = 0, cost_us;

	fill(&f->saved, 1000, 100, 0, SAVED_AT);
	cost_us = cost_of_save(f);
	saved_generation =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true((void *)saved_generation != MAP_FAILED);
	/*
	 * A busy machine needs more rounds until a kill hit the middle of a save and enough saves
	 * were completed.
	 */
	for (int round = 0;
	     round < ROUNDS ||
	     (round < 40 * ROUNDS && (!left_temporary || *saved_generation <= ROUNDS / 10));
	     round++) {
		pid_t pid = fork();
		uint32_t generation;
		int status, r;

		assert_true(pid >= 0);
		if (pid == 0)
			save_without_end(f);
		usleep((useconds_t)random() % (4 * cost_us + 2000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		left_temporary += exists(f, "state.new");

		generation = *saved_generation;
		r = load(f, 5);
		assert_null(f->result.unusable);
		if (generation == 0 && r == -ENOENT)
			continue; /* the first save was not completed */
		assert_int_equal(r, 0);
		/*
		 * Loaded is that generation or the next one, which was already in place or whole in
		 * the temporary when the child died.
		 */
		memcpy(&generation, f->loaded.tuples[0].src, sizeof(generation));
		assert_in_range(generation, *saved_generation, *saved_generation + 1);
		assert_one_generation(&f->loaded, generation);
		*saved_generation = generation;
	}
	assert_true(*saved_generation > ROUNDS / 10);
	assert_true(left_temporary > 0); /* some kill hit the middle of a save */
	munmap((void *)saved_generation, 4096);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_round_trip),
		T(test_empty_table),
		T(test_what_is_not_kept),
		T(test_smaller_table),
		T(test_reboot),
		T(test_reboot_any_clock),
		T(test_reboot_loop),
		T(test_damaged),
		T(test_flipped_bits),
		T(test_not_a_file),
		T(test_valid_temporary),
		T(test_file_before_temporary),
		T(test_unwritable_directory),
		T(test_unreadable),
		T(test_cannot_set_aside),
		T(test_full_disk),
		T(test_no_room),
		T(test_walk_fails),
		T(test_mode),
		T(test_secret),
		T(test_secret_cut_short),
		T(test_secret_unreadable),
		T(test_killed),
	};

	srandom(3);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
