// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tsnat.bpf.c - the datapath at tc: egress adds a connection's shift to TSval, ingress takes it from TSecr.
 *
 * Egress runs after conntrack's confirm, so it sees each tuple when no other connection can have it, and has the last word on a
 * SYN's shift. It also writes record.last, the highest TSval that really left. Both programs end in TC_ACT_UNSPEC
 * whatever happens: the next filter decides about the packet, never we.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct wire_src {
	struct __sk_buff *skb;
};

static __always_inline int wire_load(const struct wire_src *src, __u32 off, void *to, __u32 len)
{
	return (int)bpf_skb_load_bytes(src->skb, off, to, len);
}

#include "../core/counters.h"
#include "../core/csum.h"
#include "../core/decide.h"
#include "../core/edits.h"
#include "../core/ether.h"
#include "../core/wire_parse.h"
#include "maps.h"

char _license[] SEC("license") = "GPL";

/* Not an LRU map: it would evict the record that a live connection needs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, struct tuple);
	__type(value, struct record);
} records SEC(".maps");

/*
 * The daemon's decisions on SYNs that have not left yet. They stand beside the records, not in them: user space can only
 * replace a map's value whole, which would undo what the packet path writes to the record at the same time. Here the least recently
 * used may go: a SYN without proposal is decided by the egress program.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 15);
	__type(key, struct tuple);
	__type(value, struct proposal);
} proposals SEC(".maps");

/*
 * The destinations: their clocks under policy unify, and counts. Here, too, the least recently used goes first: a destination that nothing was
 * sent to for the longest time is the one whose TIME_WAITs are over.
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

/* Read by the daemon alone; kept here so that it lives as long as the filters do. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct hook);
} hooks SEC(".maps");

_Static_assert(COUNTER_COUNT <= 64, "the map \"counters\" has room");

static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		(*n)++;
}

static __always_inline __u32 now_ms(void)
{
	return (__u32)(bpf_ktime_get_boot_ns() / 1000000);
}

static __always_inline enum wire_status parse(struct __sk_buff *skb, int has_ethernet, struct wire_packet *pkt)
{
	struct wire_src src = { .skb = skb };
	int off = has_ethernet ? ether_l3_offset(&src) : 0;
	enum wire_status st;

	if (off < 0)
		return WIRE_OTHER;
	st = wire_parse(&src, (__u32)off, pkt);
	if (st == WIRE_BAD)
		count(COUNTER_PASSED_BAD_PACKET);
	return st;
}

/*
 * Apply a connection's shift to all timestamp options of a segment. The checksum is mended by the change alone, which is right for
 * complete checksums and leaves partial ones, which cover the pseudo header only, as they are.
 */
static __always_inline void rewrite(struct __sk_buff *skb, const struct wire_packet *pkt, enum direction dir,
				    __u32 shift)
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
			count(COUNTER_REWRITE_FAILED);
			return;
		}
		changed = 1;
	}
	if (changed)
		count(dir == DIRECTION_OUT ? COUNTER_SEGMENTS_SHIFTED_OUT : COUNTER_SEGMENTS_SHIFTED_IN);
}

/* Set and clear flags of a record's state at once. Returns the state before. */
static __always_inline __u32 state_change(struct record *r, __u32 set, __u32 clear)
{
	__u32 old = r->state;

	if ((old & set) != set)
		old = __sync_fetch_and_or(&r->state, set);
	if (old & clear)
		old = __sync_fetch_and_and(&r->state, ~clear);
	return old;
}

static __always_inline void shift_ended(struct record *r)
{
	if (r->state & RECORD_LIVE && __sync_fetch_and_and(&r->state, ~RECORD_LIVE) & RECORD_LIVE)
		count(COUNTER_SHIFTS_ENDED);
}

static __always_inline void shift_goes_on(struct record *r)
{
	if (!(r->state & RECORD_LIVE) && !(__sync_fetch_and_or(&r->state, RECORD_LIVE) & RECORD_LIVE))
		count(COUNTER_SHIFTS_STARTED);
}

/* A write per packet would move the record's cache line between processors for nothing. */
static __always_inline void seen(struct record *r, __u32 now)
{
	if (now - r->seen_ms > 16)
		r->seen_ms = now;
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

static __always_inline void destination_advance(struct destination *d, __u32 tsval, __u32 now)
{
	for (int i = 0; d && i < 4; i++) {
		__u64 old = d->high;
		__u64 new = tsclock_advance(old, tsval, now);

		if (new == old || __sync_val_compare_and_swap(&d->high, old, new) == old)
			return;
	}
}

static __always_inline int destinations_have_clocks(const struct settings *set)
{
	return set->policy == POLICY_UNIFY && set->clock.scope == SCOPE_DESTINATION;
}

static __always_inline int is_external(struct __sk_buff *skb, const struct tuple *t)
{
	struct external_key k = { .prefixlen = 160, .ifindex_be = bpf_htonl(skb->ifindex) };

	__builtin_memcpy(k.addr, t->src, 16);
	return bpf_map_lookup_elem(&externals, &k) != NULL;
}

/*
 * Take the record for a new connection: no flag of the old one is left, and the sweeper, which removes only the generation that it
 * judged, cannot remove this one. The order matters: seen_ms first, then the claim.
 *
 * Returns 0, or -1 when the sweeper was first: then the record was beyond its time, and its tuple needs no shift.
 */
static __always_inline int claim(struct record *r, __u32 now, __u32 flags)
{
	r->seen_ms = now;
	for (int i = 0; i < 4; i++) {
		__u32 old = r->state;
		__u32 new = ((old & ~RECORD_FLAGS) + RECORD_GENERATION) | (old & RECORD_LIVE) | flags;

		if (old & RECORD_DEAD)
			return -1;
		if (__sync_val_compare_and_swap(&r->state, old, new) == old)
			return 0;
	}
	return -1;
}

static __always_inline void count_pass(enum pass_reason why)
{
	count(why == PASS_NO_TIMESTAMP	 ? COUNTER_PASSED_NO_TIMESTAMP :
	      why == PASS_ZERO_TIMESTAMP ? COUNTER_PASSED_ZERO_TIMESTAMP :
	      why == PASS_AUTH_OPTION	 ? COUNTER_PASSED_AUTH_OPTION :
					   COUNTER_PASSED_BAD_OPTION);
	count(COUNTER_SYN_PASSED);
}

/* A SYN that must leave untouched: its connection has no shift. What the server may hold for the tuple stays known. */
static __always_inline void pass_syn(struct record *r, const struct wire_packet *pkt, enum pass_reason why, __u32 now)
{
	count_pass(why);
	if (!r)
		return;
	if (why == PASS_ZERO_TIMESTAMP) {
		/* its later TSvals may come from any clock */
		if (claim(r, now, RECORD_NO_LAST) < 0)
			return;
	} else if (claim(r, now, 0) < 0) {
		return;
	}
	r->shift = 0;
	r->isn = pkt->seq;
	r->syn_tsval = pkt->tsval;
	r->syn_ms = now;
	shift_ended(r);
}

/* The shift for a SYN: the daemon's if it decided about this very SYN and the result still holds, else our own. */
static __always_inline struct decision last_word(struct record *r, const struct proposal *p,
						 const struct decide_input *in)
{
	struct decision d;

	if (p && in->now_ms - p->at_ms > PROPOSAL_MS)
		p = NULL;
	if (p && p->isn != in->isn) {
		count(COUNTER_CLASHES);
		p = NULL;
	}
	if (p && !decide_is_retransmit(r, in) && decide_is_above(r, in, p->shift)) {
		d.kind = DECISION_NEW;
		d.shift = p->shift;
		return d;
	}
	d = decide(r, in);
	if (d.kind == DECISION_NEW)
		count(COUNTER_DECIDED_AT_EGRESS);
	return d;
}

/* Returns 0, or -1 when the tuple has no record for this connection, which then has no shift. */
static __always_inline int record_syn(struct record *r, const struct wire_packet *pkt, const struct proposal *p,
				      __u32 shift, __u32 now, __u32 hold_ms)
{
	__u32 tsval = pkt->tsval + shift, base = 0;
	int has_base;

	if (!r) {
		struct record new = {
			.last = RECORD_LAST(tsval, now),
			.state = shift ? RECORD_LIVE : 0,
			.shift = shift,
			.isn = pkt->seq,
			.syn_tsval = tsval,
			.seen_ms = now,
			.syn_ms = now,
		};

		if (p && p->isn == pkt->seq)
			new.inside = p->inside;
		if (bpf_map_update_elem(&records, &pkt->tuple, &new, BPF_NOEXIST) < 0) {
			count(COUNTER_TABLE_FULL);
			return -1;
		}
		count(COUNTER_RECORDS_CREATED);
		if (shift)
			count(COUNTER_SHIFTS_STARTED);
		return 0;
	}
	has_base = decide_next_base(r, now, hold_ms, &base);
	if (claim(r, now, has_base ? RECORD_BASE : 0) < 0)
		return -1;
	r->base = base;
	r->shift = shift;
	r->isn = pkt->seq;
	r->syn_tsval = tsval;
	r->syn_ms = now;
	r->last = RECORD_LAST(tsval, now);
	if (p && p->isn == pkt->seq)
		r->inside = p->inside;
	else
		__builtin_memset(&r->inside, 0, sizeof(r->inside));
	if (shift)
		shift_goes_on(r);
	else
		shift_ended(r);
	return 0;
}

/* Returns 1 when the TSval moved the record's last, or at least not too far ahead of it. */
static __always_inline int advance_last(struct record *r, __u32 tsval, __u32 now)
{
	for (int i = 0; i < 4; i++) {
		__u64 old = r->last;
		__u64 new;

		if (r->state & RECORD_NO_LAST) {
			new = RECORD_LAST(tsval, now);
		} else {
			new = record_advance(old, tsval, now);
			if (new == old) {
				if (!ts_after(tsval, RECORD_LAST_TSVAL(old)))
					return 1;
				count(COUNTER_WILD_TSVALS);
				return 0;
			}
		}
		if (__sync_val_compare_and_swap(&r->last, old, new) == old) {
			state_change(r, 0, RECORD_NO_LAST);
			return 1;
		}
	}
	return 0;
}

/* A client with a fast clock takes the destination's clock along. */
static __always_inline void advance_destination(const struct tuple *t, __u32 tsval, __u32 now)
{
	__u32 zero = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct destination_key k;

	if (!set || !destinations_have_clocks(set))
		return;
	destination_of(t, &k);
	destination_advance(bpf_map_lookup_elem(&destinations, &k), tsval, now);
}

static __always_inline void egress_syn(struct __sk_buff *skb, struct wire_packet *pkt)
{
	__u32 zero = 0, now = now_ms();
	enum pass_reason why = decide_pass_reason(pkt);
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct record *r = bpf_map_lookup_elem(&records, &pkt->tuple);
	struct destination *dest;
	struct proposal *p;
	struct decide_input in;
	struct decision d;

	if (!set)
		return;
	if (!is_external(skb, &pkt->tuple)) {
		count(COUNTER_PASSED_NO_MAPPING);
		return;
	}
	count(COUNTER_SYN_SEEN);
	if (why != PASS_NONE) {
		pass_syn(r, pkt, why, now);
		return;
	}
	in = (struct decide_input){
		.isn = pkt->seq,
		.tsval = pkt->tsval,
		.now_ms = now,
		.hold_ms = set->hold_ms,
		.policy = set->policy,
	};
	dest = destination_get(&pkt->tuple);
	if (set->policy == POLICY_UNIFY)
		decide_set_clock(&in, &set->clock, &pkt->tuple, dest);
	p = bpf_map_lookup_elem(&proposals, &pkt->tuple);
	if (!set->active && !decide_is_retransmit(r, &in)) {
		/* stopped: new connections are none of our business, but the old one's shift must not stick to them */
		count(COUNTER_SYN_PASSED);
		if (r)
			record_syn(r, pkt, NULL, 0, now, set->hold_ms);
		return;
	}
	d = last_word(r, p, &in);
	if (d.kind == DECISION_RETRANSMIT) {
		count(COUNTER_SYN_RETRANSMITTED);
		seen(r, now);
		advance_last(r, pkt->tsval + d.shift, now);
		/* the connection goes on if a sweep or a reset had written it off */
		if (d.shift)
			shift_goes_on(r);
	} else if (record_syn(r, pkt, p, d.shift, now, set->hold_ms) < 0) {
		count(COUNTER_SYN_PASSED);
		return;
	}
	if (p)
		bpf_map_delete_elem(&proposals, &pkt->tuple);
	count(d.shift ? COUNTER_SYN_SHIFTED : COUNTER_SYN_PASSED);
	if (dest) {
		__sync_fetch_and_add(&dest->syns, 1);
		if (d.shift)
			__sync_fetch_and_add(&dest->shifted, 1);
	}
	if (destinations_have_clocks(set))
		destination_advance(dest, pkt->tsval + d.shift, now);
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
	seen(r, now);
	if (pkt->ts_count && !pkt->auth_option && advance_last(r, pkt->tsval + shift, now))
		advance_destination(&pkt->tuple, pkt->tsval + shift, now);
	if (pkt->bad_option && shift)
		count(COUNTER_PASSED_BAD_OPTION);
	if (pkt->flags & WIRE_RST) {
		state_change(r, RECORD_RESET, 0);
		shift_ended(r);
	} else {
		if (pkt->flags & WIRE_FIN) {
			if (state_change(r, RECORD_FIN_OUT | RECORD_ESTABLISHED, 0) & RECORD_FIN_IN)
				shift_ended(r);
		} else {
			state_change(r, r->state & RECORD_ANSWERED ? RECORD_ESTABLISHED : 0, 0);
		}
		if (r->state & RECORD_RESET) {
			/* the client goes on: the reset was not for it, or not believed */
			state_change(r, 0, RECORD_RESET);
			if (shift && (r->state & (RECORD_FIN_OUT | RECORD_FIN_IN)) != (RECORD_FIN_OUT | RECORD_FIN_IN))
				shift_goes_on(r);
		}
	}
	rewrite(skb, pkt, DIRECTION_OUT, shift);
}

/*
 * The answer to a SYN. An ACK without SYN refuses it, and tells the server's last TSval (RFC 7323, 5.3); one that lies
 * below what the SYN carried has another reason, and teaches nothing.
 */
static __always_inline void ingress_answer(struct record *r, const struct tuple *t, const struct wire_packet *pkt)
{
	struct destination_key k;
	struct destination *d;

	if (!(pkt->flags & WIRE_ACK) || pkt->flags & WIRE_RST)
		return;
	if (pkt->flags & WIRE_SYN) {
		if (pkt->ack == r->isn + 1)
			state_change(r, RECORD_ANSWERED, 0);
		return;
	}
	count(COUNTER_CHALLENGE_ACKS);
	destination_of(t, &k);
	d = bpf_map_lookup_elem(&destinations, &k);
	if (d)
		__sync_fetch_and_add(&d->refused, 1);
	if (pkt->ts_count && pkt->tsecr && !ts_after(r->syn_tsval, pkt->tsecr)) {
		r->floor = pkt->tsecr;
		state_change(r, RECORD_FLOOR, 0);
	}
}

static __always_inline void ingress_segment(struct __sk_buff *skb, struct wire_packet *pkt)
{
	struct tuple t;
	struct record *r;

	tuple_reverse(&t, &pkt->tuple);
	r = bpf_map_lookup_elem(&records, &t);
	if (!r)
		return;
	seen(r, now_ms());
	if (pkt->bad_option && r->shift)
		count(COUNTER_PASSED_BAD_OPTION);
	if (!(r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)))
		ingress_answer(r, &t, pkt);
	if (pkt->flags & WIRE_RST) {
		state_change(r, RECORD_RESET, 0);
		shift_ended(r);
	} else if (pkt->flags & WIRE_FIN) {
		if (state_change(r, RECORD_FIN_IN, 0) & RECORD_FIN_OUT)
			shift_ended(r);
	}
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
 * Remove an expired record. A SYN claims a record by changing its state after it wrote seen_ms, and never claims a dead one; so if the
 * state is still the one that the sweeper read before, and seen_ms, read after it, is old, no SYN can have installed
 * a shift since, and none will after the exchange.
 */
static __always_inline int sweep_one(const struct control_key *k, __u32 now)
{
	struct record *r = bpf_map_lookup_elem(&records, &k->tuple);

	if (!r || __sync_fetch_and_or(&r->state, 0) != k->state || !ms_expired(now, r->seen_ms, k->limit_ms))
		return 0;
	if (__sync_val_compare_and_swap(&r->state, k->state, k->state | RECORD_DEAD) != k->state)
		return 0;
	if (bpf_map_delete_elem(&records, &k->tuple) < 0)
		return 0;
	if (k->state & RECORD_LIVE)
		count(COUNTER_SHIFTS_ENDED);
	count(COUNTER_RECORDS_REMOVED);
	return 1;
}

/* Run by the daemon, never attached. Returns how many records were changed. */
SEC("tc")
int tsnat_control(struct __sk_buff *skb)
{
	struct control_head head;
	int done = 0;

	if (bpf_skb_load_bytes(skb, 0, &head, sizeof(head)) < 0)
		return 0;
	for (__u32 i = 0; i < CONTROL_KEYS; i++) {
		struct control_key k;

		if (i >= head.count || bpf_skb_load_bytes(skb, sizeof(head) + i * sizeof(k), &k, sizeof(k)) < 0)
			break;
		if (head.op == CONTROL_SWEEP) {
			done += sweep_one(&k, head.now_ms);
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
