// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_queue_segment.c - segments of the datapath without BPF: each gets its connection's
 * shift, even if the tuple has passed on to another connection.
 */
#include "datapath_queue_parts.h"
#include "core/packet.h"
#include "core/rewrite.h"
#include "base/util.h"

/* A client with a fast clock takes the destination's clock along. */
static void advance_destination(struct datapath *dp, const struct tuple *t, uint32_t tsval,
				const struct handled *h)
{
	struct destination_key k;
	struct tuple whose;

	if (!decide_shares_clock(h->settings->policy, h->settings->clock.scope))
		return;
	clock_tuple(dp, t, &whose);
	destination_of(&whose, &k);
	connection_advance_destination(records_destination_lock(dp->records, &k, false), tsval,
				       h->now);
	records_destination_unlock(dp->records);
}

/*
 * A connection without record ends: it began before us, or was silent for longer than its record is
 * kept. Its FIN tells the TSval that the server holds from now on.
 */
static void record_end(struct datapath *dp, struct records_ref *ref, const struct tuple *t,
		       const struct handled *h)
{
	const struct wire_packet *pkt = h->pkt;
	const struct record new = {
		.last = RECORD_LAST(pkt->tsval, h->now),
		.state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN,
		.syn_tsval = pkt->tsval,
		.seen_ms = h->now,
		.syn_ms = h->now,
	};

	if (!pkt->ts_count || pkt->auth_option)
		return;
	if (records_insert(ref, t, &new) < 0)
		return;
	succession_first(&dp->successions[ref->slot], pkt->seq);
	count(&dp->counting, COUNTER_RECORDS_CREATED);
}

/* The server sees the segment's TSval on the tuple, whichever connection it belongs to. */
static void note_tsval(struct datapath *dp, struct record *r, uint32_t shift,
		       const struct handled *h)
{
	if (h->packet->outbound && h->pkt->ts_count && !h->pkt->auth_option)
		connection_advance_last(&dp->counting, r, h->pkt->tsval + shift, h->now);
}

/*
 * A segment of the old connection: the record is another connection's by now, and learns only that
 * the server saw one more TSval.
 */
static uint32_t handle_old_segment(struct datapath *dp, struct records_ref *ref,
				   const struct handled *h)
{
	struct succession *s = &dp->successions[ref->slot];
	const uint32_t shift = s->old_shift;
	struct record *r = ref->record;

	count(&dp->counting, COUNTER_SEGMENTS_OLD);
	/*
	 * a server that has not seen the old connection's end takes the SYN for a stray segment of
	 * it: its answer, and the reset that follows, look like the old connection's
	 */
	s->refused = 1;
	note_tsval(dp, r, shift, h);
	return shift;
}

/*
 * Does a segment without mark belong to the record's shifted connection all the same? It does if
 * conntrack lost the connection and found it again; it does not if the tuple has passed on.
 */
static bool lost_its_mark(struct datapath *dp, const struct records_ref *ref,
			  const struct handled *h)
{
	if (!h->packet->outbound ||
	    !succession_is_current(&dp->successions[ref->slot], ref->record, h->pkt))
		return false;
	h->verdict->mark = DATAPATH_MARK_SHIFTED;
	count(&dp->counting, COUNTER_MARKS_RESTORED);
	return true;
}

/* The record follows its connection's segment. */
static void follow(struct datapath *dp, struct records_ref *ref, const struct tuple *t,
		   const struct handled *h)
{
	struct succession *s = &dp->successions[ref->slot];
	const bool outbound = h->packet->outbound;
	struct record *r = ref->record;
	const uint32_t shift = r->shift;

	succession_follow(s, h->pkt, outbound);
	if (outbound) {
		if (connection_out(&dp->counting, r, h->pkt, shift, h->now))
			advance_destination(dp, t, h->pkt->tsval + shift, h);
	} else if (connection_in(&dp->counting, r, h->pkt, h->now)) {
		s->refused = 1;
	}
	/*
	 * the server's FIN of an unshifted connection is not queued: the client's counts for both,
	 * or the record would seem to be open
	 */
	if (!shift && outbound && h->pkt->flags & WIRE_FIN)
		connection_change_state(r, RECORD_FIN_IN, 0);
}

/* With the tuple locked. Returns the connection's shift. */
static uint32_t handle_segment(struct datapath *dp, struct records_ref *ref, const struct tuple *t,
			       const struct handled *h)
{
	const struct datapath_packet *p = h->packet;
	struct record *r = ref->record;

	if (!r && p->outbound && h->pkt->flags & WIRE_FIN) {
		record_end(dp, ref, t, h);
		return 0;
	}
	if (!r) {
		count(&dp->counting, COUNTER_SEGMENTS_UNKNOWN);
		return 0;
	}
	if (r->shift && p->unmarked && !lost_its_mark(dp, ref, h)) {
		note_tsval(dp, r, 0, h);
		return 0;
	}
	if (!p->unmarked && succession_is_old(&dp->successions[ref->slot], r, h->pkt, p->outbound))
		return handle_old_segment(dp, ref, h);
	follow(dp, ref, t, h);
	return r->shift;
}

void datapath_queue_segment(struct datapath *dp, const struct handled *h)
{
	const struct datapath_packet *p = h->packet;
	struct records_ref ref;
	uint32_t shift;
	struct tuple t;

	if (p->outbound)
		t = h->pkt->tuple;
	else
		tuple_reverse(&t, &h->pkt->tuple);
	records_lock(dp->records, &t, &ref);
	shift = handle_segment(dp, &ref, &t, h);
	records_unlock(&ref);
	if (p->cut) {
		h->verdict->drop = shift != 0;
		if (shift)
			count(&dp->counting, COUNTER_REWRITE_FAILED);
		return;
	}
	if (!rewrite_shift(p->data, p->len, h->pkt, p->outbound ? DIRECTION_OUT : DIRECTION_IN,
			   shift))
		return;
	if (p->partial)
		rewrite_complete_checksum(p->data, packet_ip_length(p->data, p->len), h->pkt);
	h->verdict->changed = true;
	count(&dp->counting,
	      p->outbound ? COUNTER_SEGMENTS_SHIFTED_OUT : COUNTER_SEGMENTS_SHIFTED_IN);
}
