/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * succession.h - a tuple passes from one connection to the next while segments of the old one still
 * wait in a queue: whose is a segment?
 *
 * conntrack sees the end of a connection before the segment that ends it comes to our queue. From
 * then on NAT may give the tuple to another connection. Its SYN waits in another queue, and may be
 * handled before the last segments of the old connection: then the record is already the new
 * connection's. So the positions of both connections in the two sequence spaces are kept. Sequence
 * spaces begin anywhere in 32 bits at each end (RFC 9293, 3.4.1): a segment belongs to the
 * connection that it is nearer to.
 *
 * The egress program needs none of this: no segment waits between conntrack and it. Pure.
 */
#pragma once

#include <linux/types.h>
#include "record.h"
#include "serial.h"
#include "wire.h"

/* The sequence numbers that one end was seen to use; host order. */
struct span {
	__u32 first, last;
	__u32 known;
};

struct place {
	struct span client, server;
};

struct succession {
	/* of the connection that has the record */
	struct place now;
	/* of the connection before it; valid if old_shift is not 0 */
	struct place old;
	/* 0: the connection before was not shifted, so none of its segments is queued */
	__u32 old_shift;
	/* perhaps the server refused the SYN that claimed the record */
	__u32 refused;
};

/* Bytes: older sequence numbers are forgotten. */
#define SPAN_MAX (1u << 30)
/* Bytes: the distance of a segment from a connection of which nothing is known. */
#define SPAN_FAR (1u << 26)

static inline __u32 span_distance(const struct span *s, __u32 seq)
{
	if (!s->known)
		return SPAN_FAR;
	if (seq - s->first <= s->last - s->first)
		return 0;
	return seq - s->last < s->first - seq ? seq - s->last : s->first - seq;
}

static inline void span_add(struct span *s, __u32 seq)
{
	if (!s->known)
		*s = (struct span){ .first = seq, .last = seq, .known = 1 };
	else if (ts_after(seq, s->last))
		s->last = seq;
	if (s->last - s->first > SPAN_MAX)
		s->first = s->last - SPAN_MAX;
}

/*
 * Is the segment nearer to the old connection? Compared at those ends where the connection that has
 * the record is known: before it was answered, its server's end is not.
 */
static inline int succession_is_nearer_to_old(const struct succession *s,
					      const struct wire_packet *pkt, int outbound)
{
	const __u32 client = outbound ? pkt->seq : pkt->ack,
		    server = outbound ? pkt->ack : pkt->seq;
	const int has_ack = pkt->flags & WIRE_ACK;
	__u32 now = 0, old = 0;

	if (s->now.client.known && (outbound || has_ack)) {
		now = span_distance(&s->now.client, client);
		old = span_distance(&s->old.client, client);
	}
	if (s->now.server.known && (!outbound || has_ack)) {
		const __u32 to_now = span_distance(&s->now.server, server),
			    to_old = span_distance(&s->old.server, server);

		now = to_now > now ? to_now : now;
		old = to_old > old ? to_old : old;
	}
	return old < now;
}

/* The connection that has the record goes on with this segment. */
static inline void succession_follow(struct succession *s, const struct wire_packet *pkt,
				     int outbound)
{
	const int has_ack = pkt->flags & WIRE_ACK;

	if (outbound || has_ack)
		span_add(&s->now.client, outbound ? pkt->seq : pkt->ack);
	if (!outbound || has_ack)
		span_add(&s->now.server, outbound ? pkt->ack : pkt->seq);
}

/* The tuple's first connection begins, by a SYN with ISN. */
static inline void succession_first(struct succession *s, __u32 isn)
{
	*s = (struct succession){ 0 };
	span_add(&s->now.client, isn);
}

/*
 * The tuple passes on to the connection that a SYN with ISN begins; R is still the record of the
 * one before. If that one was never answered it has sent no segment that could wait in a queue, so
 * the old connection stays the one before it.
 */
static inline void succession_next(struct succession *s, const struct record *r, __u32 isn)
{
	if (!s->old_shift || r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)) {
		s->old = s->now;
		s->old_shift = r->shift;
	}
	s->now = (struct place){ 0 };
	s->refused = 0;
	span_add(&s->now.client, isn);
}

/*
 * Does a segment that was queued for a shifted connection belong to the one before R's? It must not
 * be a SYN to the server.
 *
 * Before its SYN was answered, a connection sends nothing but resets without ACK. All that the
 * server sends to it is the answer; a server that refuses the SYN echoes a TSval that the SYN's is
 * not above (RFC 7323, 5.3).
 */
static inline int succession_is_old(const struct succession *s, const struct record *r,
				    const struct wire_packet *pkt, int outbound)
{
	if (!s->old_shift)
		return 0;
	if (!r->shift)
		return 1;
	if (!(r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED)) && pkt->flags & WIRE_ACK) {
		if (outbound)
			return 1;
		if (!(pkt->flags & (WIRE_SYN | WIRE_RST | WIRE_FIN)))
			return !pkt->ts_count || ts_after(r->syn_tsval, pkt->tsecr);
	}
	return succession_is_nearer_to_old(s, pkt, outbound);
}

/*
 * Do the sequence numbers alone show that a segment to the server belongs to the connection that R
 * is the record of?
 */
static inline int succession_is_current(const struct succession *s, const struct record *r,
					const struct wire_packet *pkt)
{
	return record_is_open(r) && pkt->flags & WIRE_ACK && s->now.client.known &&
	       s->now.server.known && span_distance(&s->now.client, pkt->seq) < SPAN_FAR &&
	       span_distance(&s->now.server, pkt->ack) < SPAN_FAR;
}
