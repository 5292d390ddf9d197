// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The bpf datapath behind its operations: its records, and what it leaves for the egress program
 * about a queued SYN. Nothing is attached; the maps are pinned in a directory of the test's own.
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
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "datapath_bpf/datapath_bpf.h"
#include "base/log.h"
#include "datapath_bpf/pins.h"
#include "base/util.h"
#include "datapath_bpf/maps.h"

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

static int open_pin(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s-%d", pin_dir, name, RECORD_VERSION);
	fd = bpf_obj_get(path);
	assert_true(fd >= 0);
	return fd;
}

static bool exists(uint16_t port)
{
	_cleanup_close_ int records = open_pin("records");
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
	_cleanup_close_ int records = open_pin("records");

	(void)state;
	/* whichever the table has first, both are read before the question is asked */
	put(1, record_of(OPEN | RECORD_LIVE, 7, HOLD_MS + 10000));
	put(2, record_of(0, 0, HOLD_MS + 10000));
	assert_int_equal(sweep(stop_for_a_while, &records), 0);
	assert_true(exists(1) && exists(2));
}

#define LEN 52 /* bytes of a segment: IPv4, TCP, timestamps */
#define PORT 40000u
#define LAST 1000u /* of record_of() */

static void make_segment(uint8_t p[LEN], uint8_t flags, uint32_t isn, uint32_t tsval)
{
	memset(p, 0, LEN);
	p[0] = 0x45;
	p[3] = LEN;
	p[9] = IPPROTO_TCP;
	memcpy(p + 12, (const uint8_t[]){ 192, 0, 2, 1, 198, 51, 100, 1 }, 8);
	wire_put32(p + 20, PORT << 16 | 80u);
	wire_put32(p + 24, isn);
	p[32] = 0x80;
	p[33] = flags;
	wire_put32(p + 40, 0x0101080a);
	wire_put32(p + 44, tsval);
}

/*
 * Hand a queued packet to the datapath. Returns whether there is a proposal for the tuple then, and
 * takes it away.
 */
static bool propose(const struct datapath_packet *packet, struct proposal *ret)
{
	_cleanup_close_ int proposals = open_pin("proposals");
	const struct tuple t = tuple_of(PORT);
	struct datapath_verdict v = { 0 };
	bool there;

	datapath_bpf.handle(datapath, packet, &v);
	assert_true(v.shared && !v.changed && !v.drop);
	assert_int_equal(v.mark, DATAPATH_MARK_KEEP);
	there = bpf_map_lookup_elem(proposals, &t, ret) == 0;
	bpf_map_delete_elem(proposals, &t);
	return there;
}

static void use_policy(enum policy policy, uint32_t hold_ms)
{
	const struct decide_settings set = { .policy = policy,
					     .hold_ms = hold_ms,
					     .clock = { .scope = SCOPE_TUPLE, .base_ms = 77 } };

	assert_int_equal(datapath_bpf.configure(datapath, &set, true), 0);
}

static void test_proposals(void **state)
{
	const struct inside inside = { .src = { 10, 1, 2, 3 }, .sport_be = 7 };
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true, .inside = &inside };
	struct proposal got;

	(void)state;
	use_policy(POLICY_REPAIR, HOLD_MS);
	put(PORT, record_of(OPEN | RECORD_FIN_OUT | RECORD_FIN_IN, 0, 1000));
	make_segment(p, WIRE_SYN, 5, 10);
	assert_true(propose(&d, &got));
	assert_int_equal(got.isn, 5);
	assert_true(ts_after(10 + got.shift, LAST));
	assert_memory_equal(&got.inside, &inside, sizeof(inside));

	make_segment(p, WIRE_SYN, 6, LAST + 100000); /* above the last one anyway */
	assert_true(propose(&d, &got));
	assert_int_equal(got.shift, 0);

	/* a reload: hold is over, so nothing has to be repaired any more */
	use_policy(POLICY_REPAIR, 500);
	make_segment(p, WIRE_SYN, 7, 10);
	assert_true(propose(&d, &got));
	assert_int_equal(got.shift, 0);
	use_policy(POLICY_UNIFY, 500);
	assert_true(propose(&d, &got));
	assert_int_not_equal(got.shift, 0);
}

static void test_no_proposals(void **state)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true };
	struct proposal got;
	struct record r = record_of(0, 3, 0);

	(void)state;
	use_policy(POLICY_REPAIR, HOLD_MS);
	make_segment(p, WIRE_ACK, 5, 10); /* no SYN */
	assert_false(propose(&d, &got));
	make_segment(p, WIRE_SYN, 5, 0); /* TSval 0 */
	assert_false(propose(&d, &got));
	make_segment(p, WIRE_SYN, 5, 10);
	d.untranslated = true;
	assert_false(propose(&d, &got));
	d.untranslated = false;
	d.len = 30; /* cut short */
	assert_false(propose(&d, &got));
	d.len = LEN;
	r.isn = 5; /* sent again: the record has its shift */
	put(PORT, r);
	assert_false(propose(&d, &got));
	make_segment(p, WIRE_SYN, 6, 10);
	assert_true(propose(&d, &got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sweep_that_is_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_proposals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_proposals, setup, teardown),
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
