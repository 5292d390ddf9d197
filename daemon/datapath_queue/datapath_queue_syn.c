// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_queue_syn.c - SYNs of the datapath without BPF.
 *
 * No program sees the SYN after conntrack's confirm here, so the SYN claims the record when it is
 * decided; is_clash() tells when it may not.
 */
#include <string.h>
#include <time.h>

#include "datapath_queue_parts.h"
#include "base/log.h"
#include "core/rewrite.h"
#include "base/util.h"

/*
 * Milliseconds. A SYN may also be held up between NAT and the queue. NAT does not give away a tuple
 * again so soon after a SYN that was not answered.
 */
#define CLASH_MS 20
/*
 * Milliseconds, and ticks of a clock at 1 kHz: so far above the destination's highest TSval a SYN
 * leaves whose tuple is not known. A connection runs ahead of the destination's clock by the time
 * that its SYN took from the client to here, and its last segment may still wait when another SYN
 * gets its port.
 */
#define STEP_MS 20
/*
 * A SYN that lost its tuple waits for the verdict on the SYN that has it, which another thread is
 * about to send: so many steps of so many microseconds.
 */
#define VERDICT_STEP_US 20
#define VERDICT_STEPS 250
/* Milliseconds by which a client's clock may differ from the guess that its SYN alone allows. */
#define JITTER_MS 2
/* Milliseconds in which a connection may still acknowledge something after its FIN. */
#define CLOSING_MS 1000

static bool is_in(const uint8_t addr[16], const struct datapath_external *e)
{
	const unsigned int bytes = e->prefixlen / 8, bits = e->prefixlen % 8;

	if (memcmp(addr, e->addr, bytes) != 0)
		return false;
	return !bits || (addr[bytes] ^ e->addr[bytes]) >> (8 - bits) == 0;
}

/* Is it an address that servers see, of whichever interface? Under the lock. */
static bool is_external(const struct datapath *dp, const uint8_t addr[16])
{
	for (size_t i = 0; i < dp->n_externals; i++)
		if (is_in(addr, &dp->externals[i]))
			return true;
	return false;
}

/*
 * May SYNs be decided at all? The administrator's own rules may queue before NAT, as iptables has
 * no chain after it. The tuple is not known there, so there is no record of it and no clock; only
 * the clock of a destination can be used. Under the lock.
 */
static bool may_decide(struct datapath *dp, const struct tuple *t)
{
	const struct decide_settings *s = &dp->settings;
	bool before_nat;

	if (!dp->foreign_rules)
		return true;
	before_nat = !is_external(dp, t->src);
	if (!dp->told_side && before_nat)
		log_notice("SYNs are queued before NAT: records are kept by their inside tuple");
	dp->told_side = dp->told_side || before_nat;
	if (!before_nat || decide_shares_clock(s->policy, s->clock.scope))
		return true;
	if (!dp->told_refusal)
		log_err("SYNs are queued before NAT, where their external port is not known: %s "
			"cannot be done there, they pass unchanged; "
			"use --policy unify --scope destination, or nft rules after NAT "
			"(conf/tsnatd.nft)",
			s->policy == POLICY_REPAIR ? "policy repair" : "scope tuple");
	dp->told_refusal = true;
	return false;
}

/*
 * Was this SYN given its tuple before the record's SYN was confirmed? Waiting SYNs are not in the
 * conntrack table, so NAT may give one tuple to two of them. The SYN whose verdict goes first is
 * confirmed and has the tuple; the other is dropped at its confirm. So a SYN that was already
 * waiting when the record's verdict was sent leaves the record alone. If the queue was seen empty
 * after that verdict, no such SYN waits there any more.
 *
 * Only a shifted connection has to be protected, and only of a shifted one all segments are seen:
 * any answer shows that it was confirmed. From then on conntrack tells whether it still is:
 * is_taken().
 */
static bool is_clash(const struct datapath *dp, const struct records_ref *ref,
		     const struct handled *h)
{
	const uint32_t answers = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_RESET |
				 RECORD_FLOOR | RECORD_FIN_OUT;
	const struct record *r = ref->record;

	if (!r || r->isn == h->pkt->seq || !r->shift || r->state & answers ||
	    dp->successions[ref->slot].refused)
		return false;
	return records_decided_ns(ref) >= h->packet->empty_ns ||
	       ms_elapsed(h->now, r->syn_ms) < CLASH_MS;
}

/*
 * The state that the record's unshifted connection has reached, whose answers are not seen. If its
 * verdict was sent while this SYN may have waited, this SYN will be dropped, and the server holds
 * the connection's TSval: it counts as answered, so that the next SYN has to be above its last
 * TSval, whatever this one leaves in the record. If its verdict was not sent yet, either may win:
 * then the base stays, which both have to be above.
 */
static uint32_t reached(const struct records_ref *ref, const struct handled *h)
{
	const uint64_t decided_ns = records_decided_ns(ref);

	if (ref->record->isn == h->pkt->seq || ref->record->shift ||
	    decided_ns == RECORDS_PENDING || decided_ns < h->packet->empty_ns)
		return 0;
	return RECORD_ANSWERED;
}

/*
 * Does a shifted connection that conntrack still knows have the tuple? NAT without a free port
 * gives away the port of an open connection, and conntrack drops the SYN at its confirm.
 */
static bool is_taken(struct datapath *dp, const struct handled *h)
{
	const struct datapath_packet *p = h->packet;
	struct records_ref ref;
	bool open;

	records_lock(dp->records, &h->pkt->tuple, &ref);
	open = ref.record && ref.record->shift && ref.record->isn != h->pkt->seq &&
	       record_is_open(ref.record);
	records_unlock(&ref);
	return open && p->knows && p->knows(p->knows_user, &h->pkt->tuple) == 1;
}

/*
 * The SYN that has the record must be confirmed first. Another thread may be a few instructions
 * away from sending its verdict.
 */
static void await_verdict(const struct records_ref *ref)
{
	const struct timespec step = { .tv_nsec = VERDICT_STEP_US * 1000 };

	for (int i = 0; i < VERDICT_STEPS && records_decided_ns(ref) == RECORDS_PENDING; i++)
		nanosleep(&step, NULL);
}

static void count_clash(struct datapath *dp)
{
	count(&dp->counting, COUNTER_CLASHES);
	count(&dp->counting, COUNTER_SYN_PASSED);
}

/*
 * Guess the last TSval of an unshifted connection, whose segments are not seen. Until its FIN was
 * seen, its clock is taken to run at 1 kHz since the SYN, and the guess stays just below the
 * client's own next SYN. After its FIN it may still acknowledge something, for a short time.
 */
static void extrapolate(struct record *r, uint32_t now)
{
	uint32_t elapsed = ms_elapsed(now, RECORD_LAST_MS(r->last));

	if (r->shift || r->state & RECORD_NO_LAST)
		return;
	if (!(r->state & RECORD_FIN_OUT) && elapsed > JITTER_MS)
		r->last = RECORD_LAST(RECORD_LAST_TSVAL(r->last) + elapsed - JITTER_MS,
				      now - 2 * JITTER_MS);
	else if (r->state & RECORD_FIN_OUT && elapsed < CLOSING_MS)
		r->last = RECORD_LAST(RECORD_LAST_TSVAL(r->last) + elapsed + JITTER_MS, now);
}

/* Note that a SYN was decided with SHIFT. Returns false when there is no room for its record. */
static bool record_syn(struct datapath *dp, struct records_ref *ref, struct record *r,
		       uint32_t shift, const struct handled *h)
{
	const struct inside *inside = h->packet->inside;
	struct record new;

	if (r) {
		if (connection_next(&dp->counting, r, h->pkt, inside, shift, h->now,
				    h->settings->hold_ms) < 0)
			return false;
		succession_next(&dp->successions[ref->slot], ref->record, h->pkt->seq);
		records_replace(ref, r);
		return true;
	}
	connection_first(&new, h->pkt, inside, shift, h->now);
	if (records_insert(ref, &h->pkt->tuple, &new) < 0) {
		count(&dp->counting, COUNTER_TABLE_FULL);
		return false;
	}
	succession_first(&dp->successions[ref->slot], h->pkt->seq);
	count(&dp->counting, COUNTER_RECORDS_CREATED);
	if (shift)
		count(&dp->counting, COUNTER_SHIFTS_STARTED);
	return true;
}

static struct decide_input input_of(const struct datapath *dp, const struct destination *dest,
				    const struct handled *h)
{
	const struct decide_settings *set = h->settings;
	struct decide_input in = decide_input_of(h->pkt, set->policy, set->hold_ms, h->now);
	struct tuple t;

	clock_tuple(dp, &h->pkt->tuple, &t);
	if (set->policy == POLICY_UNIFY)
		decide_set_clock(&in, &set->clock, &t, dest);
	/*
	 * before NAT the SYN may get any external port, even one whose last segment is still on its
	 * way
	 */
	if (dp->foreign_rules && in.have_high && !ts_after(in.clock, in.high + STEP_MS - 1))
		in.clock = in.high + STEP_MS;
	return in;
}

/*
 * Decide on a SYN and note it. Returns its shift. R is a copy of the record, or NULL; DEST is NULL
 * where destinations have no clocks, and when there is no room for one more.
 */
static uint32_t decide_syn(struct datapath *dp, struct records_ref *ref, struct record *r,
			   struct destination *dest, const struct handled *h)
{
	const struct decide_input in = input_of(dp, dest, h);
	struct decision d;

	if (r && !decide_is_retransmit(r, &in))
		extrapolate(r, h->now);
	d = decide(r, &in);
	if (d.kind == DECISION_RETRANSMIT) {
		connection_syn_again(&dp->counting, r, h->pkt, h->now);
		records_replace(ref, r);
	} else if (!record_syn(dp, ref, r, d.shift, h)) {
		d.shift = 0;
	} else {
		records_set_decided_ns(dp->records, ref->slot, RECORDS_PENDING);
		h->verdict->has_slot = true;
		h->verdict->slot = ref->slot;
	}
	connection_advance_destination(dest, h->pkt->tsval + d.shift, h->now);
	return d.shift;
}

/* Like decide_syn(), with the destination's clock where destinations have one. */
static uint32_t decide_with_clock(struct datapath *dp, struct records_ref *ref, struct record *r,
				  const struct handled *h)
{
	struct destination_key k;
	struct tuple t;
	uint32_t shift;

	if (!decide_shares_clock(h->settings->policy, h->settings->clock.scope))
		return decide_syn(dp, ref, r, NULL, h);
	clock_tuple(dp, &h->pkt->tuple, &t);
	destination_of(&t, &k);
	shift = decide_syn(dp, ref, r, records_destination_lock(dp->records, &k, true), h);
	records_destination_unlock(dp->records);
	return shift;
}

/* With the tuple locked. Returns the SYN's shift, 0 when it leaves as it came. */
static uint32_t handle_syn(struct datapath *dp, struct records_ref *ref, const struct handled *h,
			   bool *ret_clash)
{
	enum pass_reason why = decide_pass_reason(h->pkt);
	struct record copy, *r = ref->record ? &copy : NULL;
	uint32_t shift;

	*ret_clash = is_clash(dp, ref, h);
	if (*ret_clash) {
		count_clash(dp);
		return 0;
	}
	if (r) {
		copy = *ref->record;
		copy.state |= reached(ref, h);
	}
	if (why != PASS_NONE) {
		connection_pass_syn(&dp->counting, r, h->pkt, why, h->now, h->settings->hold_ms);
		if (r) {
			succession_next(&dp->successions[ref->slot], ref->record, h->pkt->seq);
			records_replace(ref, r);
		}
		return 0;
	}
	shift = decide_with_clock(dp, ref, r, h);
	count(&dp->counting, shift ? COUNTER_SYN_SHIFTED : COUNTER_SYN_PASSED);
	return shift;
}

/* May the SYN be decided? If not, it passes, and is counted. */
static bool is_ours(struct datapath *dp, const struct handled *h)
{
	const struct datapath_packet *p = h->packet;
	bool may;

	pthread_mutex_lock(&dp->lock);
	may = may_decide(dp, &h->pkt->tuple);
	pthread_mutex_unlock(&dp->lock);
	if (may && !(p->untranslated && !dp->foreign_rules) && !p->cut)
		return true;
	count(&dp->counting, p->cut ? COUNTER_PASSED_BAD_PACKET : COUNTER_PASSED_NO_MAPPING);
	return false;
}

void datapath_queue_syn(struct datapath *dp, const struct handled *h)
{
	const struct datapath_packet *p = h->packet;
	struct records_ref ref;
	uint32_t shift;
	bool clash;

	h->verdict->mark = DATAPATH_MARK_UNSHIFTED;
	if (!is_ours(dp, h))
		return;
	count(&dp->counting, COUNTER_SYN_SEEN);
	if (is_taken(dp, h)) {
		count_clash(dp);
		return;
	}
	records_lock(dp->records, &h->pkt->tuple, &ref);
	shift = handle_syn(dp, &ref, h, &clash);
	records_unlock(&ref);
	if (clash)
		await_verdict(&ref);
	if (shift)
		h->verdict->mark = DATAPATH_MARK_SHIFTED;
	if (!rewrite_shift(p->data, p->len, h->pkt, DIRECTION_OUT, shift))
		return;
	h->verdict->changed = true;
	count(&dp->counting, COUNTER_SEGMENTS_SHIFTED_OUT);
}
