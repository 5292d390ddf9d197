// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tsnat.bpf.c - the datapath at tc: egress adds a connection's shift to TSval, ingress takes it
 * from TSecr.
 *
 * Egress runs after conntrack's confirm. There each tuple belongs to one connection, so egress has
 * the last word on a SYN's shift. It also writes record.last, the highest TSval that really left.
 * Both programs always end in TC_ACT_UNSPEC: the next filter decides about the packet, never we.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "core/wire.h"
struct wire_src {
	struct __sk_buff *skb;
};

static __always_inline int wire_load(const struct wire_src *src, __u32 off, void *to, __u32 len)
{
	if (!__builtin_constant_p(len)) {
		__u32 less = len - 1;

		/* verifiers before 6.8 learn no bound from "len != 0" */
		asm volatile("" : "+r"(less));
		if (less >= WIRE_OPTS_MAX)
			return -1;
		len = less + 1;
		asm volatile("" : "+r"(len));
	}
	return (int)bpf_skb_load_bytes(src->skb, off, to, len);
}

#include "core/counters.h"
#include "core/csum.h"
#include "core/decide.h"
#include "core/edits.h"
#include "core/ether.h"
#include "core/wire_parse.h"
#include "maps.h"

char _license[] SEC("license") = "GPL";

/* Not an LRU map: that would evict the record of an open connection. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, struct tuple);
	__type(value, struct record);
} records SEC(".maps");

/*
 * The daemon's decisions on SYNs that have not left yet. They are not in the records: user space
 * can only replace a map's value whole, and would undo the writes of the packet path in between.
 * Here the least recently used may go: the egress program decides on a SYN without proposal.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, struct tuple);
	__type(value, struct proposal);
} proposals SEC(".maps");

/*
 * The destinations' clocks, where policy unify gives each its own. The least recently used goes
 * first: its server has forgotten its TIME_WAITs before all others.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, struct destination_key);
	__type(value, struct destination);
} destinations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct external_key);
	__type(value, __u32);
} externals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* Only the daemon reads it. It is here so that it lives as long as the filters do. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct hook);
} hooks SEC(".maps");

_Static_assert(COUNTER_COUNT <= 64, "the map \"counters\" has room");

struct counting; /* all counters are in one map, so this is empty */

static __always_inline void count(struct counting *to, __u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	(void)to;
	if (n)
		(*n)++;
}

#include "core/connection.h"

static __always_inline __u32 now_ms(void)
{
	return (__u32)(bpf_ktime_get_boot_ns() / 1000000);
}

static __always_inline enum wire_status parse(struct __sk_buff *skb, int has_ethernet,
					      struct wire_packet *pkt)
{
	struct wire_src src = { .skb = skb };
	int off = has_ethernet ? ether_l3_offset(&src) : 0;
	enum wire_status st;

	if (off < 0)
		return WIRE_OTHER;
	st = wire_parse(&src, (__u32)off, pkt);
	if (st == WIRE_BAD)
		count(NULL, COUNTER_PASSED_BAD_PACKET);
	return st;
}

/*
 * Apply a connection's shift to all timestamp options of a segment. The checksum is updated by the
 * difference alone. That is right for complete checksums, and leaves partial ones as they are,
 * which cover the pseudo header only.
 */
static __always_inline void rewrite(struct __sk_buff *skb, const struct wire_packet *pkt,
				    enum direction dir, __u32 shift)
{
	int changed = 0;

#pragma unroll
	for (int k = 0; k < WIRE_TS_MAX; k++) {
		struct edit e;
		__be32 to;

		if (!edit_timestamp(pkt, k, dir, shift, &e))
			continue;
		to = bpf_htonl(e.to);
		if (bpf_skb_store_bytes(skb, pkt->tcp_off + e.off, &to, sizeof(to), 0) < 0 ||
		    bpf_l4_csum_replace(skb, pkt->tcp_off + 16, bpf_htonl(csum_at(e.from, e.off)),
					bpf_htonl(csum_at(e.to, e.off)), sizeof(to)) < 0) {
			count(NULL, COUNTER_REWRITE_FAILED);
			return;
		}
		changed = 1;
	}
	if (changed)
		count(NULL, dir == DIRECTION_OUT ? COUNTER_SEGMENTS_SHIFTED_OUT
						 : COUNTER_SEGMENTS_SHIFTED_IN);
}

/* The tuple's destination, made if it is new; NULL when there is no room. */
static __always_inline struct destination *destination_get(const struct tuple *t)
{
	struct destination_key k;
	struct destination *d, fresh = { 0 };

	destination_of(t, &k);
	d = bpf_map_lookup_elem(&destinations, &k);
	if (d)
		return d;
	bpf_map_update_elem(&destinations, &k, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&destinations, &k);
}

static __always_inline int is_external(struct __sk_buff *skb, const struct tuple *t)
{
	struct external_key k = { .prefixlen = 160, .ifindex_be = bpf_htonl(skb->ifindex) };

	__builtin_memcpy(k.addr, t->src, 16);
	return bpf_map_lookup_elem(&externals, &k) != NULL;
}

/*
 * Decide on a SYN: by the daemon's proposal if it is for this very SYN and still holds, else anew.
 */
static __always_inline struct decision last_word(struct record *r, const struct proposal *p,
						 const struct decide_input *in)
{
	struct decision d;

	if (p && ms_elapsed(in->now_ms, p->at_ms) > PROPOSAL_MS)
		p = NULL;
	if (p && p->isn != in->isn) {
		count(NULL, COUNTER_CLASHES);
		p = NULL;
	}
	if (p && !decide_is_retransmit(r, in) && decide_is_above(r, in, p->shift)) {
		d.kind = DECISION_NEW;
		d.shift = p->shift;
		return d;
	}
	d = decide(r, in);
	if (d.kind == DECISION_NEW)
		count(NULL, COUNTER_DECIDED_AT_EGRESS);
	return d;
}

/* Returns 0, or -1 when there is no room for a record: then the connection has no shift. */
static __always_inline int record_syn(struct record *r, const struct wire_packet *pkt,
				      const struct proposal *p, __u32 shift, __u32 now,
				      __u32 hold_ms)
{
	const struct inside *inside = p && p->isn == pkt->seq ? &p->inside : NULL;
	struct record new;

	if (r)
		return connection_next(NULL, r, pkt, inside, shift, now, hold_ms);
	connection_first(&new, pkt, inside, shift, now);
	if (bpf_map_update_elem(&records, &pkt->tuple, &new, BPF_NOEXIST) < 0) {
		count(NULL, COUNTER_TABLE_FULL);
		return -1;
	}
	count(NULL, COUNTER_RECORDS_CREATED);
	if (shift)
		count(NULL, COUNTER_SHIFTS_STARTED);
	return 0;
}

/* A client with a fast clock takes the destination's clock along. */
static __always_inline void advance_destination(const struct tuple *t, __u32 tsval, __u32 now)
{
	__u32 zero = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct destination_key k;

	if (!set || !decide_shares_clock(set->policy, set->clock.scope))
		return;
	destination_of(t, &k);
	connection_advance_destination(bpf_map_lookup_elem(&destinations, &k), tsval, now);
}

static __always_inline void egress_syn(struct __sk_buff *skb, struct wire_packet *pkt)
{
	__u32 zero = 0, now = now_ms();
	enum pass_reason why = decide_pass_reason(pkt);
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct record *r = bpf_map_lookup_elem(&records, &pkt->tuple);
	struct destination *dest = NULL; /* set where destinations have clocks */
	struct proposal *p;
	struct decide_input in;
	struct decision d;

	if (!set)
		return;
	if (!is_external(skb, &pkt->tuple)) {
		count(NULL, COUNTER_PASSED_NO_MAPPING);
		return;
	}
	count(NULL, COUNTER_SYN_SEEN);
	if (why != PASS_NONE) {
		connection_pass_syn(NULL, r, pkt, why, now, set->hold_ms);
		return;
	}
	in = decide_input_of(pkt, set->policy, set->hold_ms, now);
	if (decide_shares_clock(set->policy, set->clock.scope))
		dest = destination_get(&pkt->tuple);
	if (set->policy == POLICY_UNIFY)
		decide_set_clock(&in, &set->clock, &pkt->tuple, dest);
	p = bpf_map_lookup_elem(&proposals, &pkt->tuple);
	if (!set->active && !decide_is_retransmit(r, &in)) {
		/*
		 * the daemon was stopped: new connections get no shift, not even the tuple's old
		 * one
		 */
		count(NULL, COUNTER_SYN_PASSED);
		if (r)
			record_syn(r, pkt, NULL, 0, now, set->hold_ms);
		return;
	}
	d = last_word(r, p, &in);
	if (d.kind == DECISION_RETRANSMIT) {
		connection_syn_again(NULL, r, pkt, now);
	} else if (record_syn(r, pkt, p, d.shift, now, set->hold_ms) < 0) {
		count(NULL, COUNTER_SYN_PASSED);
		return;
	}
	if (p)
		bpf_map_delete_elem(&proposals, &pkt->tuple);
	count(NULL, d.shift ? COUNTER_SYN_SHIFTED : COUNTER_SYN_PASSED);
	connection_advance_destination(dest, pkt->tsval + d.shift, now);
	rewrite(skb, pkt, DIRECTION_OUT, d.shift);
}

static __always_inline void egress_segment(struct __sk_buff *skb, struct wire_packet *pkt)
{
	struct record *r = bpf_map_lookup_elem(&records, &pkt->tuple);
	__u32 now, shift;

	if (!r)
		return;
	now = now_ms();
	shift = r->shift;
	if (connection_out(NULL, r, pkt, shift, now))
		advance_destination(&pkt->tuple, pkt->tsval + shift, now);
	rewrite(skb, pkt, DIRECTION_OUT, shift);
}

static __always_inline void ingress_segment(struct __sk_buff *skb, struct wire_packet *pkt)
{
	struct tuple t;
	struct record *r;

	tuple_reverse(&t, &pkt->tuple);
	r = bpf_map_lookup_elem(&records, &t);
	if (!r)
		return;
	connection_in(NULL, r, pkt, now_ms());
	rewrite(skb, pkt, DIRECTION_IN, r->shift);
}

static __always_inline int egress(struct __sk_buff *skb, int has_ethernet)
{
	struct wire_packet pkt;

	if (parse(skb, has_ethernet, &pkt) != WIRE_TCP)
		return TC_ACT_UNSPEC;
	if (wire_is_syn(&pkt))
		egress_syn(skb, &pkt);
	else
		egress_segment(skb, &pkt);
	return TC_ACT_UNSPEC;
}

static __always_inline int ingress(struct __sk_buff *skb, int has_ethernet)
{
	struct wire_packet pkt;

	if (parse(skb, has_ethernet, &pkt) == WIRE_TCP)
		ingress_segment(skb, &pkt);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int tsnat_egress(struct __sk_buff *skb)
{
	return egress(skb, 1);
}

SEC("tc")
int tsnat_ingress(struct __sk_buff *skb)
{
	return ingress(skb, 1);
}

/* Devices without Ethernet header: tun, PPP, WireGuard. */
SEC("tc")
int tsnat_egress_l3(struct __sk_buff *skb)
{
	return egress(skb, 0);
}

SEC("tc")
int tsnat_ingress_l3(struct __sk_buff *skb)
{
	return ingress(skb, 0);
}

/*
 * Remove an expired record, unless a SYN claimed it meanwhile. A SYN writes seen_ms first, then
 * changes the state to claim the record, and never claims a dead one. The sweeper reads in the
 * other order: if the state is still the one that it read before, and seen_ms is old, no SYN has
 * claimed the record, and none can after the exchange below.
 *
 * The clock is read last. Otherwise, if the sweeper was stopped in between, a stamp written
 * meanwhile would seem to be in the future.
 */
static __always_inline int sweep_one(const struct control_key *k)
{
	struct record *r = bpf_map_lookup_elem(&records, &k->tuple);
	__u32 seen_ms;

	if (!r || __sync_fetch_and_or(&r->state, 0) != k->state)
		return 0;
	seen_ms = *(volatile __u32 *)&r->seen_ms;
	if (!ms_expired(now_ms(), seen_ms, k->limit_ms))
		return 0;
	if (__sync_val_compare_and_swap(&r->state, k->state, k->state | RECORD_DEAD) != k->state)
		return 0;
	if (bpf_map_delete_elem(&records, &k->tuple) < 0)
		return 0;
	if (k->state & RECORD_LIVE)
		count(NULL, COUNTER_SHIFTS_ENDED);
	count(NULL, COUNTER_RECORDS_REMOVED);
	return 1;
}

/* The daemon runs this one; it is never attached. Returns how many records were changed. */
SEC("tc")
int tsnat_control(struct __sk_buff *skb)
{
	struct control_head head;
	int done = 0;

	if (bpf_skb_load_bytes(skb, 0, &head, sizeof(head)) < 0)
		return 0;
	for (__u32 i = 0; i < CONTROL_KEYS; i++) {
		struct control_key k;

		if (i >= head.count ||
		    bpf_skb_load_bytes(skb, sizeof(head) + i * sizeof(k), &k, sizeof(k)) < 0)
			break;
		if (head.op == CONTROL_SWEEP) {
			done += sweep_one(&k);
		} else if (head.op == CONTROL_INSIDE) {
			struct record *r = bpf_map_lookup_elem(&records, &k.tuple);

			if (r) {
				r->inside = k.inside;
				done++;
			}
		}
	}
	return done;
}
