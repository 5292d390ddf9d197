// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * queue_worker.c - read what waits, decide, propose, then one verdict for all of it.
 *
 * While a SYN waits, its tuple is not in the conntrack table and NAT may give it to another one. So the thread runs the moment a SYN is queued
 * (real-time priority), takes only what is already there, and does nothing between reading and verdict that could wait.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "log.h"
#include "packet.h"
#include "queue_netlink.h"
#include "queue_worker.h"
#include "util.h"

#define BATCH 32
/*
 * Two threads read each queue, and whichever runs first takes the SYN: a thread cannot run while its processor handles a burst of
 * packets in the kernel, however high its priority, but seldom are both held up. Measured with two busy processors and 8 000 ports: 4 to 63
 * clashes in 20 000 connections with one reader, none with two.
 */
#define READERS 2
#define REALTIME_PRIORITY 10
#define WAKE_MS (GUARDIAN_LATE_MS / 3)

struct queue_worker {
	struct queue_worker_config cfg;
	struct mnl_socket *nl;
	int stop_fd;
	pthread_t readers[READERS];
	unsigned int n_readers;
	atomic_uint busy; /* readers that hold packets without verdict */
	bool has_mapping;
	atomic_bool realtime;
	atomic_uint_fast64_t *alive_ms;
	atomic_uint_fast64_t counters[COUNTER_COUNT];
	struct log_limit overruns, refusals;
};

/* What one thread reads into, and which of the packets need a verdict. */
struct reader {
	char buf[BATCH][QUEUE_MESSAGE_SIZE];
	uint32_t ids[BATCH];
	unsigned int n;
};

static void count(struct queue_worker *w, enum counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&w->counters[c], n, memory_order_relaxed);
}

/*
 * Decide on a SYN and leave the decision for the datapath. What cannot be decided here (no translation known, options that forbid a
 * shift, an error of the map) simply has no proposal: the datapath counts it and lets it pass.
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
	cfg->ops->propose(cfg->datapath, &pkt.tuple, in.isn, d.shift, q->has_mapping ? &q->inside : NULL, in.now_ms);
}

static void on_error(struct queue_worker *w, int error)
{
	switch (error) {
	case -ENOENT: /* somebody deleted a base chain: the packets of that verdict are gone */
		count(w, COUNTER_VERDICTS_LATE, 1);
		break;
	case -EBADMSG:
		count(w, COUNTER_PASSED_BAD_PACKET, 1);
		break;
	default:
		if (log_limit_ok(&w->refusals, boot_ms()))
			log_warn("queue %u: the kernel refused a verdict: %s", w->cfg.num, strerror(-error));
	}
}

static void on_receive_error(struct queue_worker *w, int error)
{
	if (error == ENOBUFS) {
		count(w, COUNTER_QUEUE_OVERRUNS, 1);
		if (log_limit_ok(&w->overruns, boot_ms()))
			log_warn("queue %u: the socket buffer was full; SYNs passed undecided by the daemon", w->cfg.num);
		return;
	}
	if (log_limit_ok(&w->refusals, boot_ms()))
		log_warn("queue %u: cannot receive: %s", w->cfg.num, strerror(error));
}

static void accept_packets(struct queue_worker *w, uint32_t id, bool up_to)
{
	int r = queue_accept(w->nl, w->cfg.num, id, up_to);

	/* the send buffer is drained in the call itself, so this is a refusal, not a want of room */
	if (r < 0)
		on_error(w, r);
}

/* One verdict for all, unless another reader holds packets: it would take in theirs, which are not decided yet. */
static void send_verdicts(struct queue_worker *w, const struct reader *rd)
{
	if (rd->n > 1 && atomic_load(&w->busy) == 1) {
		accept_packets(w, rd->ids[rd->n - 1], true);
	} else {
		for (unsigned int i = 0; i < rd->n; i++)
			accept_packets(w, rd->ids[i], false);
	}
	count(w, COUNTER_VERDICTS, rd->n);
}

static void handle_messages(struct queue_worker *w, struct reader *rd, const void *buf, size_t len)
{
	const struct nlmsghdr *nlh = buf;
	int left = (int)len;

	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		struct queue_packet q;
		int r = queue_parse(nlh, &q);

		if (r < 0)
			on_error(w, r);
		if (r <= 0)
			continue;
		decide_syn(w, &q);
		if (rd->n == BATCH) /* never: the kernel sends one packet per message */
			send_verdicts(w, rd), rd->n = 0;
		rd->ids[rd->n++] = q.id;
	}
}

/* Read what waits now, at most one batch. Returns how many messages, or -errno. */
static int receive(struct queue_worker *w, struct reader *rd, struct mmsghdr msgs[BATCH])
{
	struct iovec iov[BATCH];
	int n;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ .iov_base = rd->buf[i], .iov_len = sizeof(rd->buf[i]) };
		msgs[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	n = recvmmsg(mnl_socket_get_fd(w->nl), msgs, BATCH, MSG_DONTWAIT, NULL);
	return n < 0 ? -errno : n;
}

/* Handle what waits now, at most one batch. Returns false when nothing waited. */
static bool handle_batch(struct queue_worker *w, struct reader *rd)
{
	struct mmsghdr msgs[BATCH];
	int n;

	rd->n = 0;
	atomic_fetch_add(&w->busy, 1);
	n = receive(w, rd, msgs);
	for (int i = 0; i < n; i++)
		handle_messages(w, rd, rd->buf[i], msgs[i].msg_len);
	if (rd->n)
		send_verdicts(w, rd);
	atomic_fetch_sub(&w->busy, 1);
	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n < 0)
		on_receive_error(w, -n);
	return true;
}

static void become_realtime(struct queue_worker *w)
{
	struct sched_param p = { .sched_priority = REALTIME_PRIORITY };
	int r = pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &p);

	/* one line for all readers */
	if (r != 0 && atomic_exchange(&w->realtime, false))
		log_notice("queue %u: no real-time priority (%s): under load SYNs may wait longer and clash",
			   w->cfg.num, strerror(r));
}

static void *reader_main(void *arg)
{
	struct queue_worker *w = arg;
	_cleanup_free_ struct reader *rd = malloc(sizeof(*rd));
	struct pollfd fds[] = {
		{ .fd = mnl_socket_get_fd(w->nl), .events = POLLIN },
		{ .fd = w->stop_fd, .events = POLLIN },
	};

	if (!rd)
		return NULL;
	become_realtime(w);
	while (!(fds[1].revents & POLLIN)) {
		atomic_store_explicit(w->alive_ms, boot_ms(), memory_order_relaxed);
		if (poll(fds, ARRAY_SIZE(fds), WAKE_MS) > 0 && fds[0].revents)
			handle_batch(w, rd);
	}
	/* the rules are paused by now: what still waits gets its verdict, and nothing comes after it */
	while (handle_batch(w, rd))
		;
	return NULL;
}

int queue_worker_new(struct queue_worker **ret, const struct queue_worker_config *cfg)
{
	struct queue_worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->cfg = *cfg;
	atomic_init(&w->realtime, true);
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->stop_fd < 0 ? -errno : queue_open(&w->nl, cfg->num, &w->has_mapping);
	if (r < 0) {
		close_fd(&w->stop_fd);
		free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct guardian_queue queue_worker_queue(const struct queue_worker *w)
{
	return (struct guardian_queue){ .nl = w->nl, .num = w->cfg.num };
}

int queue_worker_start(struct queue_worker *w, atomic_uint_fast64_t *alive_ms)
{
	w->alive_ms = alive_ms;
	while (w->n_readers < READERS) {
		int r = pthread_create(&w->readers[w->n_readers], NULL, reader_main, w);

		if (r != 0)
			return -r;
		w->n_readers++;
	}
	return 0;
}

void queue_worker_stop(struct queue_worker *w)
{
	const uint64_t one = 1;

	if (!w)
		return;
	/* nobody reads the eventfd: it stays readable for all */
	if (write(w->stop_fd, &one, sizeof(one)) < 0)
		log_err("queue %u: cannot stop: %s", w->cfg.num, strerror(errno));
	for (unsigned int i = 0; i < w->n_readers; i++)
		pthread_join(w->readers[i], NULL);
	mnl_socket_close(w->nl);
	close(w->stop_fd);
	free(w);
}

void queue_worker_counters(struct queue_worker *w, uint64_t *counters)
{
	uint64_t drops;

	for (int i = 0; i < COUNTER_COUNT; i++)
		counters[i] += atomic_load_explicit(&w->counters[i], memory_order_relaxed);
	if (queue_read_drops(w->cfg.num, &drops) == 0)
		counters[COUNTER_QUEUE_DROPPED] += drops;
}

bool queue_worker_is_realtime(struct queue_worker *w)
{
	return atomic_load(&w->realtime);
}

bool queue_worker_has_mapping(struct queue_worker *w)
{
	return w->has_mapping;
}
