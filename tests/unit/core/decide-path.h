/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * decide-path.h - a tuple of the gateway on simulated time, for the tests of the decision.
 *
 * Packets go through decide.h and connection.h as in the egress program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "connection-packets.h"
#include "core/edits.h"

#define HOLD 300000u
#define START 1000000u /* ms of the boot clock */

/* The server's first sequence number, and its clock. */
#define SERVER_ISN 70000u
#define SERVER_TSVAL 8000u

/* A tuple's record and its counters. */
struct path {
	struct record r;
	bool known;	    /* there is a record */
	bool no_timestamps; /* the connection has none */
	struct counting counted;
	enum policy policy;
	uint32_t clock; /* of the destination, for POLICY_UNIFY */
	uint32_t hold;
};

/* A SYN as it left. */
struct left {
	enum decision_kind kind;
	uint32_t shift;
	uint32_t tsval;
};

static inline struct path new_path(void)
{
	return (struct path){ .policy = POLICY_REPAIR, .hold = HOLD };
}

static inline struct decide_input input(const struct path *p, uint32_t isn, uint32_t tsval,
					uint32_t now)
{
	return (struct decide_input){
		.isn = isn,
		.tsval = tsval,
		.now_ms = now,
		.hold_ms = p->hold,
		.policy = p->policy,
		.clock = p->clock,
	};
}

static inline struct left syn(struct path *p, uint32_t isn, uint32_t tsval, uint32_t now)
{
	const struct wire_packet pkt = packet(WIRE_SYN, isn, tsval);
	const struct decide_input in = input(p, isn, tsval, now);
	const struct decision d = decide(p->known ? &p->r : NULL, &in);

	p->no_timestamps = false;
	if (d.kind == DECISION_RETRANSMIT) {
		connection_syn_again(&p->counted, &p->r, &pkt, now);
	} else if (p->known) {
		assert_int_equal(
			connection_next(&p->counted, &p->r, &pkt, NULL, d.shift, now, p->hold), 0);
	} else {
		connection_first(&p->r, &pkt, NULL, d.shift, now);
		if (d.shift)
			count(&p->counted, COUNTER_SHIFTS_STARTED);
		p->known = true;
	}
	return (struct left){ .kind = d.kind, .shift = d.shift, .tsval = tsval + d.shift };
}

/* A SYN that must leave untouched: without timestamp, or with TSval 0. */
static inline void pass_syn(struct path *p, uint32_t isn, bool has_timestamp, uint32_t now)
{
	struct wire_packet pkt = packet(WIRE_SYN, isn, 0);
	enum pass_reason why;

	pkt.ts_count = has_timestamp;
	p->no_timestamps = !has_timestamp;
	why = decide_pass_reason(&pkt);
	assert_int_equal(why, has_timestamp ? PASS_ZERO_TIMESTAMP : PASS_NO_TIMESTAMP);
	connection_pass_syn(&p->counted, p->known ? &p->r : NULL, &pkt, why, now, p->hold);
}

/* A segment of the client's, with its timestamp if the connection has them. */
static inline void send_out(struct path *p, uint16_t flags, uint32_t tsval, uint32_t now)
{
	struct wire_packet pkt = packet(flags, p->r.isn + 1, tsval);

	pkt.ts_count = !p->no_timestamps;
	connection_out(&p->counted, &p->r, &pkt, p->r.shift, now);
}

/* An outbound segment; returns its TSval as it left. */
static inline uint32_t segment(struct path *p, uint32_t tsval, uint32_t now)
{
	send_out(p, WIRE_ACK, tsval, now);
	return tsval + p->r.shift;
}

/* The server's SYN-ACK. */
static inline void answer(struct path *p, uint32_t now)
{
	struct wire_packet pkt = packet(WIRE_SYN | WIRE_ACK, SERVER_ISN, SERVER_TSVAL);

	pkt.ack = p->r.isn + 1;
	pkt.tsecr = p->r.syn_tsval;
	assert_int_equal(connection_in(&p->counted, &p->r, &pkt, now), 0);
}

/* The server answers the SYN with an ACK that echoes the last TSval it knows. */
static inline void challenge(struct path *p, uint32_t last, uint32_t now)
{
	struct wire_packet pkt = packet(WIRE_ACK, SERVER_ISN, SERVER_TSVAL);

	pkt.tsecr = last;
	connection_in(&p->counted, &p->r, &pkt, now);
}

/* The client's RST for an ACK that it did not expect: it has no timestamp. */
static inline void client_resets(struct path *p, uint32_t now)
{
	const struct wire_packet pkt = { .flags = WIRE_RST, .seq = 1 };

	connection_out(&p->counted, &p->r, &pkt, p->r.shift, now);
}

/* The server refused the SYN: a challenge ACK, and the RST that the client answers it with. */
static inline void refuse(struct path *p, uint32_t last, uint32_t now)
{
	challenge(p, last, now);
	client_resets(p, now);
}

/* The client's FIN, in the same tick of its clock as its last segment, and the server's. */
static inline void fins(struct path *p, uint32_t now)
{
	const struct wire_packet in = packet(WIRE_FIN | WIRE_ACK, SERVER_ISN + 1, SERVER_TSVAL);

	send_out(p, WIRE_FIN | WIRE_ACK, RECORD_LAST_TSVAL(p->r.last) - p->r.shift, now);
	connection_in(&p->counted, &p->r, &in, now);
}

/* A connection whose last segment left with TSval LAST at NOW, closed. */
static inline struct path closed_at(uint32_t last, uint32_t now)
{
	struct path p = new_path();

	syn(&p, 1, last, now);
	answer(&p, now);
	fins(&p, now);
	return p;
}
