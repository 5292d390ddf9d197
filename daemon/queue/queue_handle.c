// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * queue_handle.c - hands a packet to the datapath, and its verdict to the kernel: at once, with the
 * packet if it was changed, or by one verdict for a whole batch.
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
	case -ENOENT: /* somebody deleted a base chain, and the kernel dropped queued packets */
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

static void accept_packets(struct queue_worker *w, uint32_t id, bool up_to)
{
	int r = queue_accept(w->nl, w->cfg.num, id, up_to);

	/*
	 * An error is a refusal, never a full send buffer: the kernel handles the message within
	 * the call.
	 */
	if (r < 0)
		queue_on_error(w, r);
}

/*
 * One verdict accepts all packets up to a number. While another reader has packets without verdict,
 * it would accept those, too, undecided: then each packet gets a verdict of its own.
 */
void queue_handle_verdicts(struct queue_worker *w, struct queue_reader *rd)
{
	if (rd->n_unanswered > 1 && atomic_load(&w->busy) == 1) {
		accept_packets(w, rd->unanswered[rd->n_unanswered - 1], true);
	} else {
		for (unsigned int i = 0; i < rd->n_unanswered; i++)
			accept_packets(w, rd->unanswered[i], false);
	}
	queue_count(w, COUNTER_VERDICTS, rd->n_unanswered);
	rd->n_unanswered = 0;
}

/* A SYN with the mark was decided before, and comes again: see queue_verdict.repeat. */
static bool is_repeated(const struct queue_worker *w, const struct queue_packet *q)
{
	return w->cfg.repeat && w->cfg.kind == QUEUE_SYNS &&
	       (q->mark & w->cfg.mark_mask) == w->cfg.mark_mask;
}

static void set_mark(const struct queue_worker *w, const struct queue_packet *q,
		     enum datapath_mark mark, struct queue_verdict *v)
{
	const uint32_t mask = w->cfg.mark_mask;

	if (mark == DATAPATH_MARK_KEEP)
		return;
	v->mark = mark == DATAPATH_MARK_SHIFTED ? q->mark | mask : q->mark & ~mask;
	v->set_mark = v->mark != q->mark;
	v->repeat = mark == DATAPATH_MARK_SHIFTED && w->cfg.repeat;
}

static int conntrack_knows_it(void *user, const struct tuple *t)
{
	struct queue_worker *w = user;
	int r;

	pthread_mutex_lock(&w->knows_lock);
	r = w->cfg.knows(w->cfg.knows_user, t);
	pthread_mutex_unlock(&w->knows_lock);
	return r;
}

static struct datapath_packet to_datapath(struct queue_worker *w, const struct queue_reader *rd,
					  const struct queue_packet *q)
{
	return (struct datapath_packet){
		.data = q->data,
		.len = q->len,
		.outbound = q->outbound,
		.cut = q->cut,
		.partial = q->partial,
		.unmarked = w->cfg.kind == QUEUE_SYNS,
		.untranslated = q->has_mapping && !q->translated,
		.inside = q->has_mapping ? &q->inside : NULL,
		.empty_ns = rd->empty_ns,
		.knows = w->cfg.knows ? conntrack_knows_it : NULL,
		.knows_user = w,
	};
}

static void send_verdict(struct queue_worker *w, struct queue_reader *rd,
			 const struct queue_packet *q, const struct datapath_verdict *d)
{
	struct queue_verdict v = { .id = q->id, .drop = d->drop };
	int r;

	if (d->changed) {
		v.data = q->data;
		v.len = (uint32_t)packet_ip_length(q->data, q->len);
	}
	set_mark(w, q, d->mark, &v);
	r = queue_send_verdict(w->nl, w->cfg.num, &v, rd->verdict, w->message_size);
	if (r < 0)
		queue_on_error(w, r);
	queue_count(w, COUNTER_VERDICTS, 1);
}

static void add_to_batch(struct queue_worker *w, struct queue_reader *rd, uint32_t id)
{
	/* Today's kernels send one packet in each message, and then this never happens. */
	if (rd->n_unanswered == QUEUE_BATCH)
		queue_handle_verdicts(w, rd);
	rd->unanswered[rd->n_unanswered++] = id;
}

void queue_handle(struct queue_worker *w, struct queue_reader *rd, const struct queue_packet *q)
{
	const struct datapath_packet p = to_datapath(w, rd, q);
	const bool handled = q->len && !is_repeated(w, q);
	struct datapath_verdict v = { 0 };

	if (handled)
		w->cfg.ops->handle(w->cfg.datapath, &p, &v);
	if (v.shared) {
		add_to_batch(w, rd, q->id);
		return;
	}
	send_verdict(w, rd, q, &v);
	if (handled)
		w->cfg.ops->sent(w->cfg.datapath, &v);
}
