// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * queue_handle.c - decide on a packet and propose, then one verdict for all of a batch; or, where
 * the datapath applies shifts by itself, one for each packet, which carries the packet if it was
 * changed.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "core/packet.h"
#include "queue_reader.h"
#include "base/util.h"

void queue_on_error(struct queue_worker *w, int error)
{
	switch (error) {
	case -ENOENT: /* somebody deleted a base chain: the packets of that verdict are gone */
		queue_count(w, COUNTER_VERDICTS_LATE, 1);
		break;
	case -EBADMSG:
		queue_count(w, COUNTER_PASSED_BAD_PACKET, 1);
		break;
	default:
		if (log_limit_ok(&w->refusals, boot_ms()))
			log_warn("queue %u: the kernel refused a verdict: %s", w->cfg.num,
				 strerror(-error));
	}
}

/*
 * Decide on a SYN and leave the decision for the datapath. What cannot be decided here (no
 * translation known, options that forbid a shift, an error of the map) simply has no proposal: the
 * datapath counts it and lets it pass.
 */
static void decide_syn(struct queue_worker *w, const struct queue_packet *q)
{
	const struct queue_worker_config *cfg = &w->cfg;
	struct wire_packet pkt;
	struct record rec;
	struct decide_input in;
	struct decision d;
	int r;

	if (!q->len || packet_parse(q->data, q->len, &pkt) != WIRE_TCP || !wire_is_syn(&pkt) ||
	    decide_pass_reason(&pkt) != PASS_NONE || (q->has_mapping && !q->translated))
		return;
	in = (struct decide_input){
		.isn = pkt.seq,
		.tsval = pkt.tsval,
		.now_ms = (uint32_t)boot_ms(),
		.hold_ms = atomic_load_explicit(&cfg->policy->hold_ms, memory_order_relaxed),
		.policy = atomic_load_explicit(&cfg->policy->policy, memory_order_relaxed),
	};
	if (in.policy == POLICY_UNIFY)
		cfg->ops->set_clock(cfg->datapath, &pkt.tuple, &in);
	r = cfg->ops->lookup(cfg->datapath, &pkt.tuple, &rec);
	if (r < 0 && r != -ENOENT)
		return;
	d = decide(r < 0 ? NULL : &rec, &in);
	if (d.kind == DECISION_RETRANSMIT)
		return; /* the record has its shift */
	cfg->ops->propose(cfg->datapath, &pkt.tuple, in.isn, d.shift,
			  q->has_mapping ? &q->inside : NULL, in.now_ms);
}

static void accept_packets(struct queue_worker *w, uint32_t id, bool up_to)
{
	int r = queue_accept(w->nl, w->cfg.num, id, up_to);

	/*
	 * the send buffer is drained in the call itself, so this is a refusal, not a want of room
	 */
	if (r < 0)
		queue_on_error(w, r);
}

/*
 * One verdict for all, unless another reader holds packets: it would take in theirs, which are not
 * decided yet.
 */
void queue_handle_verdicts(struct queue_worker *w, struct queue_reader *rd)
{
	if (rd->n > 1 && atomic_load(&w->busy) == 1) {
		accept_packets(w, rd->ids[rd->n - 1], true);
	} else {
		for (unsigned int i = 0; i < rd->n; i++)
			accept_packets(w, rd->ids[i], false);
	}
	queue_count(w, COUNTER_VERDICTS, rd->n);
	rd->n = 0;
}

/* A SYN that has the mark comes for the second time: see queue_verdict.repeat. */
static bool is_repeated(const struct queue_worker *w, const struct queue_packet *q)
{
	return w->cfg.repeat && w->cfg.kind == QUEUE_SYNS &&
	       (q->mark & w->cfg.mark_mask) == w->cfg.mark_mask;
}

static void set_verdict_mark(const struct queue_worker *w, const struct queue_packet *q,
			     bool shifted, struct queue_verdict *v)
{
	const uint32_t mask = w->cfg.mark_mask;

	v->mark = shifted ? q->mark | mask : q->mark & ~mask;
	v->set_mark = v->mark != q->mark;
	v->repeat = shifted && w->cfg.repeat;
}

static int is_alive(void *user, const struct tuple *t)
{
	struct queue_worker *w = user;
	int r;

	pthread_mutex_lock(&w->alive_lock);
	r = w->cfg.alive(w->cfg.alive_user, t);
	pthread_mutex_unlock(&w->alive_lock);
	return r;
}

/*
 * A destination has one clock: to a server that compares across tuples, SYNs must leave in the
 * order in which they were decided.
 */
static bool keeps_order(const struct queue_worker *w)
{
	return w->cfg.kind == QUEUE_SYNS &&
	       atomic_load_explicit(&w->cfg.policy->policy, memory_order_relaxed) == POLICY_UNIFY;
}

static void apply_packet(struct queue_worker *w, struct queue_reader *rd,
			 const struct queue_packet *q)
{
	const struct queue_worker_config *cfg = &w->cfg;
	struct queue_verdict v = { .id = q->id };
	struct datapath_packet p = {
		.data = q->data,
		.len = q->len,
		.outbound = q->outbound,
		.cut = q->cut,
		.partial = q->partial,
		.unmarked = cfg->kind == QUEUE_SYNS,
		.untranslated = q->has_mapping && !q->translated,
		.inside = q->has_mapping ? &q->inside : NULL,
		.empty_ns = rd->empty_ns,
		.alive = cfg->alive ? is_alive : NULL,
		.alive_user = w,
	};
	const bool in_order = keeps_order(w);
	int r;

	if (in_order)
		pthread_mutex_lock(&w->order_lock);
	if (q->len && !is_repeated(w, q)) {
		if (cfg->ops->apply(cfg->datapath, &p)) {
			v.data = q->data;
			v.len = (uint32_t)packet_ip_length(q->data, q->len);
		}
		v.drop = p.drop;
		if (p.syn || p.adopted)
			set_verdict_mark(w, q, p.shifted, &v);
	}
	r = queue_send_verdict(w->nl, cfg->num, &v, rd->verdict, w->message_size);
	if (r < 0)
		queue_on_error(w, r);
	queue_count(w, COUNTER_VERDICTS, 1);
	if (p.has_ticket)
		cfg->ops->decided(cfg->datapath, &p);
	if (in_order)
		pthread_mutex_unlock(&w->order_lock);
}

void queue_handle(struct queue_worker *w, struct queue_reader *rd, const struct queue_packet *q)
{
	if (w->cfg.ops->apply) {
		apply_packet(w, rd, q);
		return;
	}
	decide_syn(w, q);
	if (rd->n == QUEUE_BATCH) /* a message holds one packet; should it ever hold more */
		queue_handle_verdicts(w, rd);
	rd->ids[rd->n++] = q->id;
}
