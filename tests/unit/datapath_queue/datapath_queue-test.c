// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The datapath without BPF, packet by packet: which shift does each one get, in whatever order they
 * are read?
 */
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "datapath_queue/datapath_queue.h"
#include "core/packet.h"
#include "core/rewrite.h"
#include "base/util.h"

#define SYN WIRE_SYN
#define ACK WIRE_ACK
#define FIN WIRE_FIN
#define RST WIRE_RST
#define HOLD_MS 300000
#define HIGH 1000000000u /* the TSval of the first connection, above all others */
#define LEN 52		 /* IPv4, TCP, timestamps */

static char dir[64];
static struct datapath *dp;
static struct record found; /* by record() */

static int begin(void **state)
{
	const struct datapath_config cfg = { .runtime_dir = dir, .records = 64 };
	const struct decide_settings set = { .policy = POLICY_REPAIR, .hold_ms = HOLD_MS };
	const char *error;

	(void)state;
	strcpy(dir, "/tmp/datapath-queue-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(datapath_queue.open(&dp, &cfg, &error), 0);
	assert_int_equal(datapath_queue.configure(dp, &set, true), 0);
	return 0;
}

static int end(void **state)
{
	char path[96];

	(void)state;
	datapath_queue.close(dp);
	snprintf(path, sizeof(path), "%s/records.map", dir);
	unlink(path);
	return rmdir(dir);
}

/* A segment to the server or from it. */
static void make(uint8_t p[LEN], bool out, uint16_t flags, uint32_t seq, uint32_t ack,
		 uint32_t tsval, uint32_t tsecr)
{
	static const uint8_t gateway[] = { 192, 0, 2, 1 }, server[] = { 198, 51, 100, 1 };
	struct wire_packet pkt;

	memset(p, 0, LEN);
	p[0] = 0x45;
	p[3] = LEN;
	p[8] = 64;
	p[9] = IPPROTO_TCP;
	memcpy(p + 12, out ? gateway : server, 4);
	memcpy(p + 16, out ? server : gateway, 4);
	wire_put32(p + 20, out ? 40000u << 16 | 80 : 80u << 16 | 40000);
	wire_put32(p + 24, seq);
	wire_put32(p + 28, ack);
	p[32] = 0x80;
	p[33] = (uint8_t)flags;
	wire_put32(p + 40, 0x0101080a);
	wire_put32(p + 44, tsval);
	wire_put32(p + 48, tsecr);
	assert_int_equal(packet_parse(p, LEN, &pkt), WIRE_TCP);
	rewrite_complete_checksum(p, LEN, &pkt);
}

static bool checksum_is_right(const uint8_t *p)
{
	uint8_t copy[LEN];
	struct wire_packet pkt;

	memcpy(copy, p, LEN);
	packet_parse(copy, LEN, &pkt);
	rewrite_complete_checksum(copy, LEN, &pkt);
	return memcmp(copy, p, LEN) == 0;
}

/* The packet goes in, its verdict comes out and is sent at once. */
static struct datapath_verdict handle(const struct datapath_packet *d)
{
	struct datapath_verdict v = { 0 };

	datapath_queue.handle(dp, d, &v);
	assert_false(v.shared);
	datapath_queue.sent(dp, &v);
	return v;
}

/* The shift of an outbound segment of a shifted connection. */
static uint32_t out(uint16_t flags, uint32_t seq, uint32_t ack, uint32_t tsval)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true };

	make(p, true, flags, seq, ack, tsval, 7);
	handle(&d);
	assert_true(checksum_is_right(p));
	return wire_get32(p + 44) - tsval;
}

/* The shift that an inbound segment of a shifted connection loses. */
static uint32_t in(uint16_t flags, uint32_t seq, uint32_t ack, uint32_t tsecr)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN };

	make(p, false, flags, seq, ack, 9, tsecr);
	handle(&d);
	assert_true(checksum_is_right(p));
	return tsecr - wire_get32(p + 48);
}

/* A SYN's shift. The queue was empty at EMPTY_NS; its verdict is sent with VERDICT. */
static uint32_t syn_when(uint32_t isn, uint32_t tsval, uint64_t empty_ns, bool verdict)
{
	uint8_t p[LEN];
	struct datapath_packet d = {
		.data = p, .len = LEN, .outbound = true, .unmarked = true, .empty_ns = empty_ns
	};
	struct datapath_verdict v = { 0 };

	make(p, true, SYN, isn, 0, tsval, 0);
	datapath_queue.handle(dp, &d, &v);
	assert_true(checksum_is_right(p));
	assert_int_equal(v.mark, wire_get32(p + 44) != tsval ? DATAPATH_MARK_SHIFTED
							     : DATAPATH_MARK_UNSHIFTED);
	if (verdict)
		datapath_queue.sent(dp, &v);
	return wire_get32(p + 44) - tsval;
}

static uint32_t syn(uint32_t isn, uint32_t tsval)
{
	usleep(1000); /* then the queue was seen to be empty since the last verdict */
	return syn_when(isn, tsval, boot_ns(), true);
}

/* An unshifted connection, whose FIN alone is queued, and its record. */
static void first_connection(void)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true, .unmarked = true };

	assert_int_equal(syn(100, HIGH), 0);
	make(p, true, FIN | ACK, 200, 5, HIGH + 3, 7);
	assert_false(handle(&d).changed);
}

static int take_record(void *user, const struct tuple *t, const struct record *r)
{
	const struct tuple *want = user;

	if (memcmp(t, want, sizeof(*t)) != 0)
		return 0;
	found = *r;
	return 1;
}

static struct record record(void)
{
	struct tuple t = { .src = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
			   .dst = { [10] = 0xff, 0xff, 198, 51, 100, 1 },
			   .sport_be = htons(40000),
			   .dport_be = htons(80) };

	assert_int_equal(datapath_queue.each(dp, take_record, &t), 1);
	return found;
}

static uint64_t counter(enum counter which)
{
	uint64_t n[COUNTER_COUNT] = { 0 };

	datapath_queue.counters(dp, n);
	return n[which];
}

static void test_shift(void **state)
{
	uint32_t shift;

	(void)state;
	first_connection();
	shift = syn(5000, 1000);
	assert_true(ts_after(1000 + shift, HIGH + 3));
	assert_int_equal(in(SYN | ACK, 90000, 5001, 1000 + shift), shift);
	assert_int_equal(out(ACK, 5001, 90001, 1001), shift);
	assert_int_equal(in(ACK, 90001, 5001, 1001 + shift), shift);
}

/*
 * Its last segments are read after the next connection's SYN, and even after that one was answered.
 */
static void test_old_segments(void **state)
{
	uint32_t a, b;

	(void)state;
	first_connection();
	a = syn(5000, 1000);
	in(SYN | ACK, 90000, 5001, 1000 + a);
	out(ACK, 5001, 90001, 1001);
	b = syn(3000000000u, 700);
	assert_true(b && b != a);
	assert_true(ts_after(700 + b, 1001 + a));
	assert_int_equal(out(ACK, 5101, 90401, 1002), a);
	assert_int_equal(in(FIN | ACK, 90401, 5101, 1001 + a), a);
	assert_int_equal(in(SYN | ACK, 155000, 3000000001u, 700 + b), b);
	assert_int_equal(out(FIN | ACK, 5101, 90402, 1003), a);
	assert_int_equal(out(ACK, 3000000001u, 155001, 701), b);
	assert_int_equal(in(ACK, 90402, 5102, 1003 + a), a);
	assert_int_equal(in(ACK, 155001, 3000000001u, 701 + b), b);
	assert_int_equal(counter(COUNTER_SEGMENTS_OLD), 4);
	assert_int_equal(record().isn, 3000000000u);
}

/* The next connection needs no shift, so nothing of it is queued but SYN and FIN. */
static void test_old_segments_before_unshifted(void **state)
{
	uint32_t a;

	(void)state;
	first_connection();
	a = syn(5000, 1000);
	in(SYN | ACK, 90000, 5001, 1000 + a);
	out(ACK, 5001, 90001, 1001);
	assert_int_equal(syn(3000000000u, 2 * HIGH), 0);
	assert_int_equal(out(FIN | ACK, 5101, 90401, 1002), a);
	assert_int_equal(in(ACK, 90401, 5102, 1002 + a), a);
}

/*
 * Two SYNs were given one tuple. The one that is read first has it, whether its verdict was sent
 * meanwhile or not.
 */
static void test_clash(void **state)
{
	const uint64_t empty_ns = boot_ns();
	uint32_t a;

	(void)state;
	first_connection();
	a = syn_when(5000, 1000, empty_ns, false);
	assert_true(a);
	assert_int_equal(syn_when(3000000000u, 700, empty_ns, false), 0);
	assert_int_equal(record().isn, 5000);
	assert_int_equal(syn_when(5000, 1000, empty_ns, true), a); /* sent again */
	assert_int_equal(syn_when(3000000000u, 700, empty_ns, true), 0);
	assert_int_equal(counter(COUNTER_CLASHES), 2);
	assert_int_equal(in(SYN | ACK, 90000, 5001, 1000 + a), a);
}

/*
 * Of two that need no shift either may win. The one that is read later is above the first, and
 * above what the server held before them.
 */
static void test_clash_of_unshifted(void **state)
{
	const uint64_t empty_ns = boot_ns();
	const uint32_t step = 0x60000000;

	(void)state;
	first_connection();
	assert_int_equal(syn_when(5000, HIGH + step, empty_ns, false), 0);
	assert_true(syn_when(3000000000u, HIGH + 2 * step, empty_ns,
			     false)); /* beyond half the range of what the server may hold */
	assert_int_equal(record().isn, 3000000000u);
}

/*
 * The first one's verdict was sent, so the other is lost. The next SYN is above the winner,
 * whatever the loser left.
 */
static void test_clash_with_unshifted(void **state)
{
	const uint64_t empty_ns = boot_ns();
	const uint32_t step = 0x60000000;
	uint32_t shift;

	(void)state;
	first_connection();
	assert_int_equal(syn_when(5000, HIGH + step, empty_ns, true), 0);
	assert_int_equal(syn_when(3000000000u, HIGH + 2 * step, empty_ns, true), 0);
	shift = syn(1000000000u, HIGH + 3 * step);
	assert_true(ts_after(HIGH + 3 * step + shift, HIGH + step));
}

/*
 * To a server that has not seen the old connection's end the SYN is a stray segment: it tells where
 * it is, and the client resets that. conntrack gives the tuple away at once.
 */
static void test_refused(void **state)
{
	const uint64_t empty_ns = boot_ns(); /* a reader was held up since then */
	uint32_t a, b, c;

	(void)state;
	first_connection();
	a = syn(5000, 1000);
	in(SYN | ACK, 90000, 5001, 1000 + a);
	out(ACK, 5001, 90001, 1001);
	b = syn_when(3000000000u, 700, empty_ns, true);
	in(ACK, 90001, 5001, 1001 + a);
	out(RST, 5001, 0, 0);
	c = syn_when(1000000000u, 300, empty_ns, true);
	assert_true(c);
	assert_true(ts_after(300 + c, 700 + b));
	assert_int_equal(record().isn, 1000000000u);
	assert_int_equal(counter(COUNTER_CLASHES), 0);
}

/*
 * conntrack lost it with its mark, and picks it up again. Not what somebody else sends from the
 * tuple.
 */
static void test_lost_mark(void **state)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true, .unmarked = true };
	struct datapath_verdict v;
	uint32_t shift;

	(void)state;
	first_connection();
	shift = syn(5000, 1000);
	in(SYN | ACK, 90000, 5001, 1000 + shift);
	out(ACK, 5001, 90001, 1001);
	make(p, true, ACK, 5101, 90001, 1002, 7);
	v = handle(&d);
	assert_true(v.changed);
	assert_int_equal(v.mark, DATAPATH_MARK_SHIFTED);
	assert_int_equal(wire_get32(p + 44), 1002 + shift);
	make(p, true, ACK, 3000000000u, 90001, 1002, 7);
	v = handle(&d);
	assert_false(v.changed);
	assert_int_equal(v.mark, DATAPATH_MARK_KEEP);
	make(p, true, ACK, 5101, 3000000000u, 1002, 7);
	assert_false(handle(&d).changed);
	assert_int_equal(counter(COUNTER_MARKS_RESTORED), 1);
}

/*
 * What is acknowledged after the FIN of an unshifted connection is not seen, and has a younger
 * TSval.
 */
static void test_last_ack(void **state)
{
	uint64_t start;
	uint32_t shift;

	do { /* it counts for a second */
		end(state);
		begin(state);
		start = boot_ms();
		first_connection();
		shift = syn(5000, HIGH + 4); /* the clock of the same host, as it seems */
	} while (boot_ms() - start > 900);
	assert_true(ts_after(HIGH + 4 + shift, HIGH + 4));
}

/* Merged by the kernel: the checksum covers the pseudo header alone. */
static void test_partial(void **state)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true, .partial = true };
	uint32_t shift;

	(void)state;
	first_connection();
	shift = syn(5000, 1000);
	in(SYN | ACK, 90000, 5001, 1000 + shift);
	make(p, true, ACK, 5001, 90001, 1001, 7);
	p[36] = 0x12;
	p[37] = 0x34;
	assert_true(handle(&d).changed);
	assert_true(checksum_is_right(p));
	assert_int_equal(wire_get32(p + 44), 1001 + shift);
}

/* Not all of it was copied: it cannot go back, and must not pass without its shift. */
static void test_cut(void **state)
{
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true, .cut = true };
	struct datapath_verdict v;

	(void)state;
	first_connection();
	in(SYN | ACK, 90000, 5001, 1000 + syn(5000, 1000));
	make(p, true, ACK, 5001, 90001, 1001, 7);
	v = handle(&d);
	assert_true(v.drop && !v.changed);
	assert_int_equal(counter(COUNTER_REWRITE_FAILED), 1);
}

/* A SYN of another client to the same destination, in a thread of its own. */
struct other_syn {
	uint8_t p[LEN];
	atomic_bool decided;
};

static void *decide_other_syn(void *arg)
{
	struct other_syn *o = arg;
	const struct datapath_packet d = {
		.data = o->p, .len = LEN, .outbound = true, .unmarked = true
	};
	struct datapath_verdict v = { 0 };

	datapath_queue.handle(dp, &d, &v);
	datapath_queue.sent(dp, &v);
	atomic_store(&o->decided, true);
	return NULL;
}

/* SYNs to one destination leave in the order in which they were decided, by one clock. */
static void test_order(void **state)
{
	const struct decide_settings set = { .policy = POLICY_UNIFY,
					     .hold_ms = HOLD_MS,
					     .clock = { .scope = SCOPE_DESTINATION } };
	struct other_syn other = { .decided = false };
	uint8_t p[LEN];
	struct datapath_packet d = { .data = p, .len = LEN, .outbound = true, .unmarked = true };
	struct datapath_verdict v = { 0 };
	pthread_t thread;

	(void)state;
	datapath_queue.configure(dp, &set, true);
	make(p, true, SYN, 5000, 0, 1000000, 0);
	datapath_queue.handle(dp, &d, &v);
	make(other.p, true, SYN, 9000, 0, 10, 0);
	wire_put32(other.p + 20, 40001u << 16 | 80);
	assert_int_equal(pthread_create(&thread, NULL, decide_other_syn, &other), 0);
	usleep(50000);
	assert_false(atomic_load(&other.decided)); /* the first one's verdict was not sent yet */
	datapath_queue.sent(dp, &v);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&other.decided));
	assert_false(ts_after(wire_get32(p + 44), wire_get32(other.p + 44)));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_shift),
		TEST(test_old_segments),
		TEST(test_old_segments_before_unshifted),
		TEST(test_clash),
		TEST(test_clash_of_unshifted),
		TEST(test_clash_with_unshifted),
		TEST(test_refused),
		TEST(test_last_ack),
		TEST(test_lost_mark),
		TEST(test_partial),
		TEST(test_cut),
		TEST(test_order),
	};

	return cmocka_run_group_tests_name("datapath-queue", tests, NULL, NULL);
}
