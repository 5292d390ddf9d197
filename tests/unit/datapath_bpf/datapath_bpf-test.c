// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The bpf datapath's records, behind its operations. Nothing is attached; the maps are pinned in a
 * directory of the test's own.
 *
 * Needs CAP_BPF, CAP_NET_ADMIN and a bpffs; says so and ends well where they are missing.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "datapath_bpf/datapath_bpf.h"
#include "base/log.h"
#include "datapath_bpf/pins.h"
#include "base/util.h"

#define HOLD_MS 60000u

static char pin_dir[64];
static struct datapath_config config;
static struct datapath *datapath;

static int open_datapath(void)
{
	const char *error = "";
	int r = datapath_bpf.open(&datapath, &config, &error);

	if (r < 0)
		printf("# %s: %s\n", error, strerror(-r));
	return r;
}

static int setup(void **state)
{
	(void)state;
	return open_datapath();
}

static int teardown(void **state)
{
	(void)state;
	datapath_bpf.close(datapath);
	return pins_remove(pin_dir);
}

static struct tuple tuple_of(uint16_t port)
{
	return (struct tuple){
		.src = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
		.dst = { [10] = 0xff, 0xff, 198, 51, 100, 1 },
		.sport_be = __builtin_bswap16(port),
		.dport_be = __builtin_bswap16(80),
	};
}

static struct record record_of(uint32_t state, uint32_t shift, uint32_t silent_ms)
{
	const uint32_t seen = (uint32_t)boot_ms() - silent_ms;

	return (struct record){ .last = RECORD_LAST(1000, seen),
				.state = state,
				.shift = shift,
				.seen_ms = seen,
				.syn_ms = seen };
}

static void put(uint16_t port, struct record r)
{
	const struct tuple t = tuple_of(port);

	assert_int_equal(datapath_bpf.restore(datapath, &t, &r), 0);
}

static int open_records(void)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/records-%d", pin_dir, RECORD_VERSION);
	fd = bpf_obj_get(path);
	assert_true(fd >= 0);
	return fd;
}

static bool exists(uint16_t port)
{
	_cleanup_close_ int records = open_records();
	const struct tuple t = tuple_of(port);
	struct record r;

	return bpf_map_lookup_elem(records, &t, &r) == 0;
}

/* A whole round. Returns how many records it removed. */
static uint32_t sweep(datapath_knows_fn *knows, void *user)
{
	struct datapath_sweep s = { 0 };
	uint32_t removed = 0;

	while (!s.complete) {
		assert_int_equal(datapath_bpf.sweep(datapath, HOLD_MS, 1, knows, user, &s), 0);
		removed += s.removed;
	}
	return removed;
}

#define OPEN (RECORD_ANSWERED | RECORD_ESTABLISHED)

static int say_dead(void *user, const struct tuple *t)
{
	(void)t;
	(*(int *)user)++;
	return 0;
}

static int say_alive(void *user, const struct tuple *t)
{
	(void)t;
	(*(int *)user)++;
	return 1;
}

static void test_sweep(void **state)
{
	int asked = 0;

	(void)state;
	put(1, record_of(0, 0, HOLD_MS - 10000)); /* silent, but not for as long as the hold time */
	put(2, record_of(0, 0, HOLD_MS + 10000));
	put(3, record_of(OPEN, 0, HOLD_MS + 10000));
	put(4, record_of(OPEN | RECORD_LIVE, 7, HOLD_MS + 10000));
	assert_int_equal(sweep(say_alive, &asked), 1);
	assert_false(exists(2));
	assert_int_equal(asked, 1); /* of the shifted one alone */
	assert_int_equal(sweep(say_dead, &asked), 1);
	assert_false(exists(4));
	assert_int_equal(sweep(NULL, NULL), 0);
	assert_true(exists(1) && exists(3));
}

/*
 * Stop for more than a second, as a busy machine may do it to anybody, while packets go on: then a
 * packet of port 2's tuple.
 */
static int stop_for_a_while(void *user, const struct tuple *t)
{
	const struct tuple other = tuple_of(2);
	const struct record fresh = record_of(0, 0, 0);
	const struct timespec pause = { .tv_sec = 1, .tv_nsec = 500000000 };
	struct record now;

	(void)t;
	nanosleep(&pause, NULL);
	now = fresh;
	now.seen_ms = (uint32_t)boot_ms();
	assert_int_equal(bpf_map_update_elem(*(int *)user, &other, &now, BPF_EXIST), 0);
	return 1;
}

static void test_sweep_that_is_stopped(void **state)
{
	_cleanup_close_ int records = open_records();

	(void)state;
	/* whichever the table has first, both are read before the question is asked */
	put(1, record_of(OPEN | RECORD_LIVE, 7, HOLD_MS + 10000));
	put(2, record_of(0, 0, HOLD_MS + 10000));
	assert_int_equal(sweep(stop_for_a_while, &records), 0);
	assert_true(exists(1) && exists(2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sweep_that_is_stopped, setup, teardown),
	};
	int r;

	snprintf(pin_dir, sizeof(pin_dir), "/sys/fs/bpf/tsnatd-unit-%d", (int)getpid());
	config = (struct datapath_config){ .pin_dir = pin_dir,
					   .runtime_dir = "/nonexistent",
					   .records = 1000 };
	r = open_datapath();
	if (r == -EPERM || r == -EOPNOTSUPP || r == -EROFS) {
		printf("ok 1 - the bpf datapath # SKIP may not be opened\n");
		return 0;
	}
	if (r < 0)
		return 1;
	teardown(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
