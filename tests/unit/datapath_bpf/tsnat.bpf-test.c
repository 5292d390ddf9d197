// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The packets of tests/vectors/segments.txt through the BPF programs, by BPF_PROG_TEST_RUN, and
 * what the egress program decides about a SYN. Nothing is attached, the maps are the test's own.
 * VLAN tags stay in band here; on the way in from a real device the kernel takes the outer one out
 * before tc, which leaves the programs the frame with one tag less.
 *
 *	tsnat.bpf-test [OBJECT]	default: $TSNAT_BPF, or build/tsnat.bpf.o
 *
 * Needs CAP_BPF and CAP_NET_ADMIN; says so and ends well where they are missing.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "datapath_bpf/maps.h"
#include "base/util.h"
#include "../core/vectors.h"

#define TEST_RUN_MIN ETH_HLEN /* the kernel takes no shorter packet */
#define HOLD_MS 300000u

static struct {
	struct bpf_object *object;
	int records, proposals, externals, settings, counters;
	int program[2][2]; /* by direction, and whether there is an Ethernet header */
} bpf;

static struct vector *vectors;
static size_t n_vectors;

/* The connection of segments.txt as the server sees it. */
static const struct tuple tuples[2] = {
	{
		.src = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
		.dst = { [10] = 0xff, 0xff, 198, 51, 100, 1 },
		.sport_be = __builtin_bswap16(40000),
		.dport_be = __builtin_bswap16(80),
	},
	{
		.src = { 0x20, 0x01, 0x0d, 0xb8, 0, 1, [15] = 0x01 },
		.dst = { 0x20, 0x01, 0x0d, 0xb8, 0, 2, [15] = 0x80 },
		.sport_be = __builtin_bswap16(40000),
		.dport_be = __builtin_bswap16(80),
	},
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ports above");

static int program_fd(const char *name)
{
	struct bpf_program *p = bpf_object__find_program_by_name(bpf.object, name);

	return p ? bpf_program__fd(p) : -1;
}

static int find_all(void)
{
	bpf.records = bpf_object__find_map_fd_by_name(bpf.object, "records");
	bpf.proposals = bpf_object__find_map_fd_by_name(bpf.object, "proposals");
	bpf.externals = bpf_object__find_map_fd_by_name(bpf.object, "externals");
	bpf.settings = bpf_object__find_map_fd_by_name(bpf.object, "settings");
	bpf.counters = bpf_object__find_map_fd_by_name(bpf.object, "counters");
	bpf.program[DIRECTION_OUT][1] = program_fd("tsnat_egress");
	bpf.program[DIRECTION_OUT][0] = program_fd("tsnat_egress_l3");
	bpf.program[DIRECTION_IN][1] = program_fd("tsnat_ingress");
	bpf.program[DIRECTION_IN][0] = program_fd("tsnat_ingress_l3");
	return bpf.records < 0 || bpf.proposals < 0 || bpf.externals < 0 || bpf.settings < 0 ||
	       bpf.counters < 0 || bpf.program[0][0] < 0 || bpf.program[0][1] < 0 ||
	       bpf.program[1][0] < 0 || bpf.program[1][1] < 0;
}

/* Returns 0, or -EPERM when BPF is not for us, or 1. */
static int load(const char *path)
{
	int r;

	bpf.object = bpf_object__open_file(path, NULL);
	if (!bpf.object) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	r = bpf_object__load(bpf.object);
	if (r == -EPERM) {
		printf("ok 1 - BPF programs # SKIP may not load them\n");
		return -EPERM;
	}
	if (r < 0 || find_all()) {
		fprintf(stderr, "%s: cannot be loaded, or lacks a map or program\n", path);
		return 1;
	}
	return 0;
}

/* Every source on the interface that the kernel runs the packets on is translated, or none. */
static void set_external(bool external)
{
	const __u32 yes = 1;

	for (unsigned int ifindex = 1; ifindex < 256; ifindex++) {
		struct external_key k = { .prefixlen = 32,
					  .ifindex_be = __builtin_bswap32(ifindex) };

		if (external)
			assert_int_equal(bpf_map_update_elem(bpf.externals, &k, &yes, BPF_ANY), 0);
		else
			bpf_map_delete_elem(bpf.externals, &k);
	}
}

static void set_settings(bool active)
{
	const struct settings s = { .active = active, .policy = POLICY_REPAIR, .hold_ms = HOLD_MS };
	const __u32 zero = 0;

	assert_int_equal(bpf_map_update_elem(bpf.settings, &zero, &s, BPF_ANY), 0);
}

static void read_counters(__u64 to[COUNTER_COUNT])
{
	int cpus = libbpf_num_possible_cpus();
	__u64 *each = calloc((size_t)cpus, sizeof(*each));

	assert_non_null(each);
	for (__u32 i = 0; i < COUNTER_COUNT; i++) {
		assert_int_equal(bpf_map_lookup_elem(bpf.counters, &i, each), 0);
		to[i] = 0;
		for (int c = 0; c < cpus; c++)
			to[i] += each[c];
	}
	free(each);
}

static void put_record(const struct tuple *t, __u32 state, __u32 shift, __u32 last, __u32 now)
{
	const struct record r = {
		.last = RECORD_LAST(last, now),
		.state = state,
		.shift = shift,
		.isn = 0x77777777,
		.syn_tsval = last,
		.seen_ms = now,
		.syn_ms = now,
	};

	assert_int_equal(bpf_map_update_elem(bpf.records, t, &r, BPF_ANY), 0);
}

/* Both connections are shifted, and what the packet path wrote is forgotten. */
static void put_records(__u32 shift)
{
	__u32 now = (__u32)boot_ms();

	for (size_t i = 0; i < ARRAY_SIZE(tuples); i++) {
		put_record(&tuples[i], RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_LIVE, shift, 1,
			   now);
		bpf_map_delete_elem(bpf.proposals, &tuples[i]);
	}
}

/* The daemon's decision about a SYN, on a tuple of which nothing is known. */
static void put_proposal(const struct tuple *t, __u32 isn, __u32 shift)
{
	const struct proposal p = { .isn = isn, .shift = shift, .at_ms = (__u32)boot_ms() - 10 };

	bpf_map_delete_elem(bpf.records, t);
	assert_int_equal(bpf_map_update_elem(bpf.proposals, t, &p, BPF_ANY), 0);
}

/* Returns 0 or -errno. */
static int run(const struct vector *v, uint8_t out[VECTOR_BYTES], size_t *ret_len)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = v->packet, .data_size_in = (__u32)v->len,
		    .data_out = out, .data_size_out = VECTOR_BYTES, .repeat = 1);
	int r = bpf_prog_test_run_opts(bpf.program[v->dir][v->ether], &opts);

	if (r < 0)
		return r;
	assert_int_equal((int)opts.retval, TC_ACT_UNSPEC);
	*ret_len = opts.data_size_out;
	return 0;
}

static int is_syn_out(const struct vector *v, const struct vector_result *c)
{
	return c->is == WIRE_TCP && v->dir == DIRECTION_OUT && wire_is_syn(&c->pkt);
}

/* Did each counter grow by what the packet is worth? Returns how many did not. */
static int check_counters(const struct vector *v, const struct vector_result *c,
			  const __u64 *before, const __u64 *after)
{
	static const enum counter watched[] = {
		COUNTER_PASSED_NO_TIMESTAMP,  COUNTER_PASSED_ZERO_TIMESTAMP,
		COUNTER_PASSED_AUTH_OPTION,   COUNTER_PASSED_BAD_OPTION,
		COUNTER_PASSED_BAD_PACKET,    COUNTER_PASSED_NO_MAPPING,
		COUNTER_SEGMENTS_SHIFTED_OUT, COUNTER_SEGMENTS_SHIFTED_IN,
		COUNTER_REWRITE_FAILED,	      COUNTER_SYN_SEEN,
		COUNTER_SYN_SHIFTED,	      COUNTER_SYN_PASSED,
		COUNTER_DECIDED_AT_EGRESS,    COUNTER_TABLE_FULL,
	};
	int syn = is_syn_out(v, c), wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
		enum counter n = watched[i];
		int want = n == v->counter;

		if (n == (v->dir == DIRECTION_OUT ? COUNTER_SEGMENTS_SHIFTED_OUT
						  : COUNTER_SEGMENTS_SHIFTED_IN))
			want = c->changed > 0;
		else if (n == COUNTER_SYN_SEEN)
			want = syn;
		else if (n == COUNTER_SYN_SHIFTED)
			want = syn && c->changed;
		else if (n == COUNTER_SYN_PASSED)
			want = syn && !c->changed;
		if (after[n] - before[n] != (__u64)want) {
			print_error("%s%s: counter %d grew by %llu instead of %d\n", v->name,
				    v->ether ? " in a frame" : "", n,
				    (unsigned long long)(after[n] - before[n]), want);
			wrong++;
		}
	}
	return wrong;
}

/*
 * A SYN takes its tuple's record over, whatever becomes of it; other segments leave the shift
 * alone.
 */
static int check_record(const struct vector *v, const struct vector_result *c)
{
	struct tuple t = c->pkt.tuple;
	struct record r;
	__u32 want = v->shift;

	if (v->dir == DIRECTION_IN)
		tuple_reverse(&t, &c->pkt.tuple);
	if (bpf_map_lookup_elem(bpf.records, &t, &r) < 0) {
		print_error("%s: no record\n", v->name);
		return 1;
	}
	if (is_syn_out(v, c) && !c->changed)
		want = 0;
	if (r.shift == want)
		return 0;
	print_error("%s: the record's shift is %x\n", v->name, r.shift);
	return 1;
}

/* Returns how much was wrong, or -errno when the kernel did not run it. */
static int check(const struct vector *v)
{
	__u64 before[COUNTER_COUNT], after[COUNTER_COUNT];
	uint8_t out[VECTOR_BYTES];
	struct vector_result c;
	int r, wrong = 0;
	size_t len;

	vector_apply(v, &c);
	put_records(v->shift);
	if (is_syn_out(v, &c) && c.changed)
		put_proposal(&c.pkt.tuple, c.pkt.seq, v->shift);
	read_counters(before);
	r = run(v, out, &len);
	if (r < 0)
		return r;
	read_counters(after);
	if (len != v->len || memcmp(out, v->expect, len) || memcmp(out, c.bytes, len)) {
		vector_print_difference(v, "BPF", out, len);
		wrong++;
	}
	wrong += check_counters(v, &c, before, after);
	if (c.is == WIRE_TCP)
		wrong += check_record(v, &c);
	return wrong;
}

/* Newer kernels run no frame whose network header is cut. */
static bool may_be_refused(const struct vector *v)
{
	size_t len = v->len - TEST_RUN_MIN;

	switch (wire_get16(v->packet + 12)) {
	case ETH_P_IP:
		return len < 20;
	case ETH_P_IPV6:
		return len < 40;
	default:
		return len == 0;
	}
}

/*
 * Run V unless the kernel can not; then its name is printed, for the record: only the C code saw
 * it.
 */
static int check_if_possible(const struct vector *v, size_t *ran)
{
	int r;

	if (v->len < TEST_RUN_MIN) {
		print_message("  C only, %zu bytes%s: %s\n", v->len, v->ether ? " in a frame" : "",
			      v->name);
		return 0;
	}
	r = check(v);
	if (r == -EINVAL && may_be_refused(v)) {
		print_message("  C only, too short for the kernel: %s\n", v->name);
		return 0;
	}
	if (r < 0) {
		print_error("%s: %s\n", v->name, strerror(-r));
		return 1;
	}
	(*ran)++;
	return r;
}

static void test_as_they_come(void **state)
{
	size_t ran = 0;
	int wrong = 0;

	(void)state;
	for (size_t i = 0; i < n_vectors; i++)
		wrong += check_if_possible(&vectors[i], &ran);
	print_message("%zu of %zu vectors ran\n", ran, n_vectors);
	assert_int_equal(wrong, 0);
	assert_true(ran >= n_vectors - 20);
}

/* What a headerless device carries, on a device with Ethernet header. */
static void test_in_frames(void **state)
{
	size_t ran = 0, n = 0;
	struct vector v;
	int wrong = 0;

	(void)state;
	for (size_t i = 0; i < n_vectors; i++) {
		if (vectors[i].ether)
			continue;
		n++;
		vector_wrap(&vectors[i], &v);
		wrong += check_if_possible(&v, &ran);
	}
	print_message("%zu of %zu vectors ran\n", ran, n);
	assert_int_equal(wrong, 0);
	assert_true(ran >= n - 20);
}

/* Without a record every packet but a SYN leaves as it came. */
static void test_without_records(void **state)
{
	uint8_t out[VECTOR_BYTES];
	struct vector_result c;
	size_t len;

	(void)state;
	for (size_t i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];

		vector_apply(v, &c);
		for (size_t k = 0; k < ARRAY_SIZE(tuples); k++)
			bpf_map_delete_elem(bpf.records, &tuples[k]);
		/* of a new tuple nothing is known, so a SYN's shift is 0 as well */
		if (v->len < TEST_RUN_MIN || run(v, out, &len) < 0)
			continue;
		if (len != v->len || memcmp(out, v->packet, len)) {
			vector_print_difference(v, "without record", out, len);
			fail();
		}
	}
}

/* A SYN whose source no NAT translated is none of ours, even if the daemon decided about it. */
static void test_untranslated(void **state)
{
	__u64 before[COUNTER_COUNT], after[COUNTER_COUNT];
	uint8_t out[VECTOR_BYTES];
	struct vector_result c;
	__u64 n = 0;
	size_t len;

	(void)state;
	set_external(false);
	read_counters(before);
	for (size_t i = 0; i < n_vectors; i++) {
		const struct vector *v = &vectors[i];

		vector_apply(v, &c);
		if (!is_syn_out(v, &c))
			continue;
		put_records(v->shift);
		put_proposal(&c.pkt.tuple, c.pkt.seq, v->shift);
		assert_int_equal(run(v, out, &len), 0);
		assert_int_equal(len, v->len);
		assert_memory_equal(out, v->packet, len);
		n++;
	}
	read_counters(after);
	set_external(true);
	assert_true(n > 20);
	assert_int_equal(after[COUNTER_PASSED_NO_MAPPING] - before[COUNTER_PASSED_NO_MAPPING], n);
	assert_int_equal(after[COUNTER_SYN_SEEN], before[COUNTER_SYN_SEEN]);
}

/* --- what the egress program decides --- */

#define LAST 0xe0000000u /* above the SYN's TSval, which is 0xdeadbeef */
#define TOLERANCE 5000	 /* ms that the test itself may take between two steps */

static const struct vector *find(const char *name)
{
	for (size_t i = 0; i < n_vectors; i++)
		if (!strcmp(vectors[i].name, name))
			return &vectors[i];
	fail_msg("there is no vector '%s'", name);
	return NULL;
}

/* A closed connection whose last segment left AGE_MS ago. */
static void put_closed(__u32 age_ms)
{
	const __u32 state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN;

	put_records(0);
	put_record(&tuples[0], state, 0, LAST, (__u32)boot_ms() - age_ms);
}

static void propose(__u32 isn, __u32 shift, __u32 age_ms)
{
	const struct proposal p = { .isn = isn,
				    .shift = shift,
				    .at_ms = (__u32)boot_ms() - age_ms };

	assert_int_equal(bpf_map_update_elem(bpf.proposals, &tuples[0], &p, BPF_ANY), 0);
}

struct outcome {
	__u64 grown[COUNTER_COUNT];
	struct wire_packet sent, left;
	struct record r;
};

/*
 * Send a SYN and look what became of it. Whatever was decided, the packet is the C code's with that
 * shift.
 */
static void send(const struct vector *syn, struct outcome *o)
{
	__u64 before[COUNTER_COUNT];
	uint8_t out[VECTOR_BYTES];
	struct vector_result c;
	struct vector v = *syn;
	size_t len;

	read_counters(before);
	assert_int_equal(run(&v, out, &len), 0);
	read_counters(o->grown);
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		o->grown[i] -= before[i];
	assert_int_equal(vector_parse(&v, v.packet, v.len, &o->sent), WIRE_TCP);
	assert_int_equal(vector_parse(&v, out, len, &o->left), WIRE_TCP);
	assert_int_equal(bpf_map_lookup_elem(bpf.records, &tuples[0], &o->r), 0);
	v.shift = o->r.shift;
	vector_apply(&v, &c);
	assert_int_equal(len, v.len);
	assert_memory_equal(out, c.bytes, len);
	assert_int_equal(o->left.tsval, o->sent.tsval + o->r.shift);
	assert_int_equal(o->grown[COUNTER_SYN_SEEN], 1);
	assert_int_equal(o->grown[COUNTER_SYN_SHIFTED], o->r.shift != 0);
	assert_int_equal(o->grown[COUNTER_SYN_PASSED], o->r.shift == 0);
}

static void send_syn(struct outcome *o)
{
	send(find("syn-linux"), o);
}

static void send_syn_of(struct outcome *o, __u32 isn, __u32 tsval)
{
	struct vector v = *find("syn-linux");

	wire_put32(v.packet + 20 + 4, isn);
	wire_put32(v.packet + 20 + 20 + 8, tsval);
	send(&v, o);
}

static void assert_repaired(const struct outcome *o, __u32 above)
{
	assert_true(ts_after(o->left.tsval, above));
	assert_in_range(o->left.tsval - above, 1, TOLERANCE);
	assert_int_equal(RECORD_LAST_TSVAL(o->r.last), o->left.tsval);
	assert_int_equal(o->r.syn_tsval, o->left.tsval);
	assert_int_equal(o->r.isn, o->sent.seq);
	assert_int_equal(o->grown[COUNTER_DECIDED_AT_EGRESS], 1);
}

/* Nobody decided: the daemon is not there, or egress decides them all. */
static void test_egress_repairs(void **state)
{
	struct outcome o;

	(void)state;
	put_closed(50);
	send_syn(&o);
	assert_repaired(&o, LAST + 49);
	assert_int_equal(o.grown[COUNTER_CLASHES], 0);
	/* the hold is over */
	put_closed(HOLD_MS + 1000);
	send_syn(&o);
	assert_int_equal(o.r.shift, 0);
}

static void test_egress_takes_proposal(void **state)
{
	struct outcome o;

	(void)state;
	put_closed(50);
	send_syn(&o);
	put_closed(50);
	propose(o.sent.seq, 0x10000000, 100);
	send_syn(&o);
	assert_int_equal(o.r.shift, 0x10000000);
	assert_int_equal(o.grown[COUNTER_DECIDED_AT_EGRESS], 0);
	/* and once more, with whatever proposal: a retransmission */
	propose(o.sent.seq, 0x20000000, 100);
	send_syn(&o);
	assert_int_equal(o.r.shift, 0x10000000);
	assert_int_equal(o.grown[COUNTER_SYN_RETRANSMITTED], 1);
	assert_int_equal(o.grown[COUNTER_DECIDED_AT_EGRESS], 0);
}

static void test_egress_redoes_proposal(void **state)
{
	__u32 isn;
	struct outcome o;

	(void)state;
	put_closed(50);
	send_syn(&o);
	isn = o.sent.seq;
	/* for another SYN that wanted the tuple */
	put_closed(50);
	propose(isn + 1, 0x10000000, 100);
	send_syn(&o);
	assert_repaired(&o, LAST + 49);
	assert_int_equal(o.grown[COUNTER_CLASHES], 1);
	/* something left above what it was based on */
	put_closed(50);
	propose(isn, LAST - o.sent.tsval, 100);
	send_syn(&o);
	assert_repaired(&o, LAST + 49);
	/* its SYN was dropped long ago */
	put_closed(50);
	propose(isn, 0x10000000, PROPOSAL_MS + 1000);
	send_syn(&o);
	assert_repaired(&o, LAST + 49);
}

/* The daemon was stopped: new connections are left alone, and no old shift sticks to them. */
static void test_egress_inactive(void **state)
{
	struct outcome o;

	(void)state;
	set_settings(false);
	put_records(0x12345);
	send_syn(&o);
	assert_int_equal(o.r.shift, 0);
	set_settings(true);
}

/* An ACK from the server with this echo and acknowledgement. */
static void receive(uint8_t flags, __u32 ack, __u32 tsecr)
{
	struct vector v = *find("usual-v4-in-raw");
	uint8_t out[VECTOR_BYTES];
	size_t len;

	wire_put32(v.packet + 20 + 8, ack);
	v.packet[20 + 13] = flags;
	wire_put32(v.packet + 20 + 20 + 8, tsecr);
	assert_int_equal(run(&v, out, &len), 0);
}

static void test_learns_from_challenge(void **state)
{
	__u64 before[COUNTER_COUNT], after[COUNTER_COUNT];
	struct outcome o;
	__u32 known;

	(void)state;
	put_closed(HOLD_MS + 1000);
	send_syn(&o);
	known = o.left.tsval + 0x10000000;
	read_counters(before);
	receive(WIRE_ACK, 0x5555, known);
	read_counters(after);
	assert_int_equal(after[COUNTER_CHALLENGE_ACKS] - before[COUNTER_CHALLENGE_ACKS], 1);
	send_syn(&o);
	assert_repaired(&o, known);
	/* answered: from now on an ACK is an ACK */
	receive(WIRE_SYN | WIRE_ACK, o.sent.seq + 1, o.left.tsval);
	receive(WIRE_ACK, o.sent.seq + 1, known + 0x10000000);
	send_syn(&o);
	assert_int_equal(o.grown[COUNTER_SYN_RETRANSMITTED], 1);
	assert_true(o.r.state & RECORD_ANSWERED);
	assert_false(o.r.state & RECORD_FLOOR);
}

/*
 * Two SYNs that each go forward by less than half the range, of which the server got the second
 * only.
 */
static void test_lost_syn_between(void **state)
{
	struct outcome o;

	(void)state;
	put_closed(50);
	send_syn_of(&o, 2, LAST + 0x50000000);
	assert_int_equal(o.r.shift, 0);
	send_syn_of(&o, 3, LAST + 0xa0000000);
	assert_repaired(&o, LAST + 0x50000000);
	/* still unanswered, still the same floors */
	send_syn_of(&o, 4, LAST + 0xa0000000);
	assert_true(ts_after(o.left.tsval, LAST));
	assert_true(ts_after(o.left.tsval, LAST + 0x50000000));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_they_come),
		cmocka_unit_test(test_in_frames),
		cmocka_unit_test(test_without_records),
		cmocka_unit_test(test_untranslated),
		cmocka_unit_test(test_egress_repairs),
		cmocka_unit_test(test_egress_takes_proposal),
		cmocka_unit_test(test_egress_redoes_proposal),
		cmocka_unit_test(test_egress_inactive),
		cmocka_unit_test(test_learns_from_challenge),
		cmocka_unit_test(test_lost_syn_between),
	};
	const char *path = argc > 1 ? argv[1] : getenv("TSNAT_BPF");
	int r = load(path ? path : "build/tsnat.bpf.o");

	if (r)
		return r > 0;
	set_settings(true);
	set_external(true);
	vectors = vectors_load(&n_vectors);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(vectors);
	bpf_object__close(bpf.object);
	return r;
}
