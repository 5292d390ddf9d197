// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_queue_segment.c - segments of the datapath without BPF: each gets its connection's
 * shift, also when its tuple is another one's by now.
 */
#include "datapath_queue_parts.h"
#include "core/packet.h"
#include "core/rewrite.h"
#include "base/util.h"

/* A client with a fast clock takes the destination's clock along. */
static void advance_destination(struct datapath *dp, const struct tuple *t, uint32_t tsval,
				uint32_t now)
{
	struct destination_key k;
	struct tuple whose;
	bool wanted;

	pthread_mutex_lock(&dp->lock);
	wanted = dp->settings.policy == POLICY_UNIFY &&
		 dp->settings.clock.scope == SCOPE_DESTINATION;
	pthread_mutex_unlock(&dp->lock);
	if (!wanted)
		return;
	clock_tuple(dp, t, &whose);
	destination_of(&whose, &k);
	destination_advance(records_destination_lock(dp->records, &k, false), tsval, now);
	records_destination_unlock(dp->records);
}

static void count_refusal(struct datapath *dp, const struct tuple *t)
{
	struct destination_key k;
	struct destination *d;
	struct tuple whose;

	clock_tuple(dp, t, &whose);
	destination_of(&whose, &k);
	d = records_destination_lock(dp->records, &k, false);
	if (d)
		d->refused++;
	records_destination_unlock(dp->records);
}

/*
 * The end of a connection that was longer than its record, or began before us: what the server
 * holds now.
 */
static void record_end(struct datapath *dp, struct records_ref *ref, const struct tuple *t,
		       const struct wire_packet *pkt, uint32_t now)
{
	const struct record new = {
		.last = RECORD_LAST(pkt->tsval, now),
		.state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN,
		.syn_tsval = pkt->tsval,
		.seen_ms = now,
		.syn_ms = now,
	};

	if (!pkt->ts_count || pkt->auth_option)
		return;
	if (records_insert(ref, t, &new) < 0)
		return;
	succession_first(&dp->successions[ref->slot], pkt->seq);
	count(&dp->counting, COUNTER_RECORDS_CREATED);
}

/* Whosever segment it is, the server sees its TSval from the tuple. */
static void note_tsval(struct datapath *dp, struct record *r, const struct wire_packet *pkt,
		       uint32_t shift, const struct datapath_packet *p, uint32_t now)
{
	if (p->outbound && pkt->ts_count && !pkt->auth_option)
		advance_last(&dp->counting, r, pkt->tsval + shift, now);
}

/*
 * Of the connection whose tuple another one has by now: all that it may still change is what the
 * server has seen.
 */
static uint32_t handle_old_segment(struct datapath *dp, struct records_ref *ref,
				   const struct wire_packet *pkt, const struct datapath_packet *p,
				   uint32_t now)
{
	struct succession *s = &dp->successions[ref->slot];
	const uint32_t shift = s->old_shift;
	struct record *r = ref->record;

	count(&dp->counting, COUNTER_SEGMENTS_OLD);
	/*
	 * to a server that has not seen the old connection's end, the SYN is a stray segment of it:
	 * its answer, and the reset that it earns, look old
	 */
	s->refused = 1;
	note_tsval(dp, r, pkt, shift, p, now);
	return shift;
}

/* With the tuple locked. Returns the connection's shift. */
static uint32_t handle_segment(struct datapath *dp, struct records_ref *ref, const struct tuple *t,
			       const struct wire_packet *pkt, struct datapath_packet *p,
			       uint32_t now)
{
	struct record *r = ref->record;
	struct succession *s;
	uint32_t shift;

	if (!r && p->outbound && pkt->flags & WIRE_FIN) {
		record_end(dp, ref, t, pkt, now);
		return 0;
	}
	if (!r) {
		count(&dp->counting, COUNTER_SEGMENTS_UNKNOWN);
		return 0;
	}
	shift = r->shift;
	s = &dp->successions[ref->slot];
	if (shift && p->unmarked) {
		/*
		 * the record went over to another connection, or conntrack lost this one and found
		 * it again
		 */
		p->adopted = p->outbound && succession_is_current(s, r, pkt);
		if (!p->adopted) {
			note_tsval(dp, r, pkt, 0, p, now);
			return 0;
		}
		count(&dp->counting, COUNTER_MARKS_RESTORED);
	}
	if (!p->unmarked && succession_is_old(s, r, pkt, p->outbound))
		return handle_old_segment(dp, ref, pkt, p, now);
	succession_follow(s, pkt, p->outbound);
	if (!p->outbound) {
		if (connection_in(&dp->counting, r, pkt, now)) {
			s->refused = 1;
			count_refusal(dp, t);
		}
	} else if (connection_out(&dp->counting, r, pkt, shift, now)) {
		advance_destination(dp, t, pkt->tsval + shift, now);
	}
	/*
	 * without a shift the server's FIN is not seen: the client's counts for both, or the record
	 * would be that of an open connection
	 */
	if (!shift && p->outbound && pkt->flags & WIRE_FIN)
		state_change(r, RECORD_FIN_IN, 0);
	return shift;
}

int datapath_queue_segment(struct datapath *dp, const struct wire_packet *pkt,
			   struct datapath_packet *p)
{
	const enum direction dir = p->outbound ? DIRECTION_OUT : DIRECTION_IN;
	struct records_ref ref;
	uint32_t shift;
	struct tuple t;

	if (p->outbound)
		t = pkt->tuple;
	else
		tuple_reverse(&t, &pkt->tuple);
	records_lock(dp->records, &t, &ref);
	shift = handle_segment(dp, &ref, &t, pkt, p, (uint32_t)boot_ms());
	records_unlock(&ref);
	p->shifted = shift != 0;
	if (p->cut) {
		p->drop = shift != 0;
		if (shift)
			count(&dp->counting, COUNTER_REWRITE_FAILED);
		return 0;
	}
	if (!rewrite_shift(p->data, p->len, pkt, dir, shift))
		return 0;
	if (p->partial)
		rewrite_complete_checksum(p->data, packet_ip_length(p->data, p->len), pkt);
	count(&dp->counting,
	      p->outbound ? COUNTER_SEGMENTS_SHIFTED_OUT : COUNTER_SEGMENTS_SHIFTED_IN);
	return 1;
}
