// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * queue_worker.c - read what waits, decide, propose, then one verdict for all of it; or, where the
 * datapath applies shifts by itself, one for each packet, which carries the packet if it was
 * changed.
 *
 * While a SYN waits, its tuple is not in the conntrack table and NAT may give it to another one. So
 * the thread runs the moment a SYN is queued (real-time priority), takes only what is already
 * there, and does nothing between reading and verdict that could wait.
 *
 * Where each processor has a queue of its own, its first reader is bound to that processor: it runs
 * when the kernel's work that queued the SYN is done, without waking another processor. While it is
 * busy a second reader, which may run anywhere, takes what comes. Measured with one and two busy
 * clients, 8 000 ports, two processors, medians of six alternated runs: 1.09 and 1.39 times the
 * requests of one queue for all processors; no clash with one client, with two one in 1 200
 * connections, with one queue for all one in 950.
 *
 * One queue for all processors has two readers, too, and a SYN wakes both: whichever runs first
 * takes it; seldom are both held up. There, waking only one cost 19 to 35 clashes in 30 000
 * connections of one client instead of none. Segments of shifted connections have one reader, which
 * keeps their order.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "log.h"
#include "packet.h"
#include "queue_netlink.h"
#include "queue_worker.h"
#include "table.h"
#include "util.h"

#define BATCH 32
#define READERS_MAX 2
#define BATCHES 64 /* before the thread looks up */
#define REALTIME_PRIORITY 10
#define SEGMENTS_NICE (-15)
#define WAKE_MS (GUARDIAN_LATE_MS / 3)

/*
 * Which packets were lost on their way here. The kernel numbers packets as it puts them into the
 * socket; the numbers of those that found no room there are missing, as the next one shows that
 * does. (The queue itself is never full before the socket is: QUEUE_MAXLEN.) The kernel counts the
 * lost ones itself, too, but only root may read where.
 */
struct queue_ids {
	pthread_mutex_t lock;
	bool any;
	uint32_t first, last; /* the lowest and the highest number seen, serially */
	uint32_t seen;	      /* how many, modulo 2^32 as they are */
	atomic_uint lost;
};

struct queue_worker {
	struct queue_worker_config cfg;
	struct mnl_socket *nl;
	int stop_fd;
	atomic_bool drain; /* at the end */
	struct reader *readers[READERS_MAX];
	unsigned int n_readers;
	atomic_uint busy; /* readers that hold packets without verdict */
	bool has_mapping;
	atomic_bool realtime;
	atomic_uint_fast64_t empty_ns; /* boot clock: nothing waited then */
	pthread_mutex_t alive_lock;    /* of cfg.alive */
	pthread_mutex_t order_lock;    /* see keeps_order() */
	atomic_uint_fast64_t *alive_ms;
	atomic_uint_fast64_t counters[COUNTER_COUNT];
	struct queue_ids ids;
	struct log_limit overruns, refusals;
	size_t message_size;
};

/* What one thread waits at and reads into, and which packets still need a verdict. */
struct reader {
	struct queue_worker *worker;
	pthread_t thread;
	int epoll_fd;
	bool bound; /* to the processors of its queue */
	uint32_t ids[BATCH];
	unsigned int n;
	unsigned int seen; /* packets in the batch, and their numbers */
	uint32_t first_id, last_id;
	uint64_t empty_ns; /* boot clock: what it holds came later */
	char *messages;	   /* BATCH of them; owned */
	char *verdict;	   /* one; owned */
};

static void count(struct queue_worker *w, enum counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&w->counters[c], n, memory_order_relaxed);
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
			log_warn("queue %u: the kernel refused a verdict: %s", w->cfg.num,
				 strerror(-error));
	}
}

/* What is lost when a queue of this kind is full. */
static const char *loss(const struct queue_worker *w)
{
	return w->cfg.kind == QUEUE_SYNS ? "SYNs passed undecided by the daemon"
					 : "segments were dropped, and will be sent again";
}

static void on_receive_error(struct queue_worker *w, int error)
{
	if (error == ENOBUFS) {
		count(w, COUNTER_QUEUE_OVERRUNS, 1);
		if (log_limit_ok(&w->overruns, boot_ms()))
			log_warn("queue %u: the socket buffer was full; %s", w->cfg.num, loss(w));
		return;
	}
	if (log_limit_ok(&w->refusals, boot_ms()))
		log_warn("queue %u: cannot receive: %s", w->cfg.num, strerror(error));
}

static void accept_packets(struct queue_worker *w, uint32_t id, bool up_to)
{
	int r = queue_accept(w->nl, w->cfg.num, id, up_to);

	/*
	 * the send buffer is drained in the call itself, so this is a refusal, not a want of room
	 */
	if (r < 0)
		on_error(w, r);
}

/*
 * One verdict for all, unless another reader holds packets: it would take in theirs, which are not
 * decided yet.
 */
static void send_verdicts(struct queue_worker *w, struct reader *rd)
{
	if (rd->n > 1 && atomic_load(&w->busy) == 1) {
		accept_packets(w, rd->ids[rd->n - 1], true);
	} else {
		for (unsigned int i = 0; i < rd->n; i++)
			accept_packets(w, rd->ids[i], false);
	}
	count(w, COUNTER_VERDICTS, rd->n);
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

static void apply_packet(struct queue_worker *w, struct reader *rd, const struct queue_packet *q)
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
		on_error(w, r);
	count(w, COUNTER_VERDICTS, 1);
	if (p.has_ticket)
		cfg->ops->decided(cfg->datapath, &p);
	if (in_order)
		pthread_mutex_unlock(&w->order_lock);
}

static void note_id(struct reader *rd, uint32_t id)
{
	if (rd->seen++ == 0)
		rd->first_id = id;
	rd->last_id = id;
}

/*
 * The batch is done. A packet that another reader has taken out of the socket and not noted yet is
 * not lost: so they are counted when nobody holds any. What comes in after the last reader left has
 * higher numbers.
 */
static void batch_done(struct queue_worker *w, struct reader *rd)
{
	struct queue_ids *ids = &w->ids;

	pthread_mutex_lock(&ids->lock);
	if (rd->seen) {
		if (!ids->any || (int32_t)(rd->first_id - ids->first) < 0)
			ids->first = rd->first_id;
		if (!ids->any || (int32_t)(rd->last_id - ids->last) > 0)
			ids->last = rd->last_id;
		ids->any = true;
		ids->seen += rd->seen;
		rd->seen = 0;
	}
	if (atomic_fetch_sub(&w->busy, 1) == 1 && ids->any)
		atomic_store(&ids->lost, ids->last - ids->first + 1 - ids->seen);
	pthread_mutex_unlock(&ids->lock);
}

static void handle_messages(struct queue_worker *w, struct reader *rd, const void *buf, size_t len)
{
	const struct nlmsghdr *nlh = buf;
	int left = (int)len;

	for (; nlmsg_fits(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		struct queue_packet q;
		int r = queue_parse(nlh, &q);

		if (r < 0)
			on_error(w, r);
		if (r <= 0)
			continue;
		note_id(rd, q.id);
		if (w->cfg.ops->apply) {
			apply_packet(w, rd, &q);
			continue;
		}
		decide_syn(w, &q);
		if (rd->n == BATCH) /* a message holds one packet; should it ever hold more */
			send_verdicts(w, rd);
		rd->ids[rd->n++] = q.id;
	}
}

/* Read what waits now, at most one batch, and handle it. Returns how many messages, or -errno. */
static int receive(struct queue_worker *w, struct reader *rd)
{
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	int n;

	for (size_t i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ .iov_base = rd->messages + i * w->message_size,
					 .iov_len = w->message_size };
		msgs[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	n = recvmmsg(mnl_socket_get_fd(w->nl), msgs, BATCH, MSG_DONTWAIT, NULL);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		handle_messages(w, rd, iov[i].iov_base, msgs[i].msg_len);
	return n;
}

/* Handle what waits now, at most one batch. Returns false when nothing waited. */
static bool handle_batch(struct queue_worker *w, struct reader *rd)
{
	uint64_t now_ns = boot_ns();
	int n;

	atomic_store_explicit(w->alive_ms, now_ns / 1000000, memory_order_relaxed);
	atomic_fetch_add(&w->busy, 1);
	/*
	 * before it reads: what another reader finds empty after that says nothing about what this
	 * one took
	 */
	rd->empty_ns = atomic_load(&w->empty_ns);
	n = receive(w, rd);
	if (rd->n)
		send_verdicts(w, rd);
	batch_done(w, rd);
	if (n == -EAGAIN || n == -EINTR) {
		atomic_store(&w->empty_ns, now_ns);
		return false;
	}
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
		log_notice("queue %u: no real-time priority (%s): under load SYNs may wait longer "
			   "and clash",
			   w->cfg.num, strerror(r));
}

static void bind_to_processors(const struct queue_worker *w)
{
	cpu_set_t set;
	int r;

	CPU_ZERO(&set);
	for (int cpu = w->cfg.index; cpu < CPU_SETSIZE; cpu += w->cfg.total)
		CPU_SET(cpu, &set);
	r = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (r != 0)
		log_debug("queue %u: cannot bind its reader to a processor: %s", w->cfg.num,
			  strerror(r));
}

/* Wait until there may be packets. Returns false when the worker is to stop. */
static bool wait_for_packets(struct queue_worker *w, struct reader *rd, bool *there)
{
	struct epoll_event events[2];
	int n = epoll_wait(rd->epoll_fd, events, ARRAY_SIZE(events), WAKE_MS);

	*there = false;
	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == w->stop_fd)
			return false;
		*there = true;
	}
	return true;
}

/*
 * Segments that wait are sent again by TCP, and a FIN that passes conntrack twice makes it give a
 * tuple away before the connection is over. Not real-time priority: bulk data would leave nothing
 * to others.
 */
static void become_nice(struct queue_worker *w)
{
	/* of this thread alone */
	if (setpriority(PRIO_PROCESS, 0, SEGMENTS_NICE) < 0)
		log_debug("queue %u: nice value %d: %s", w->cfg.num, SEGMENTS_NICE,
			  strerror(errno));
}

static void read_queue(struct queue_worker *w, struct reader *rd)
{
	/*
	 * where shifts are applied here, a queue is read until it is seen to be empty: what comes
	 * then did not wait before
	 */
	const int batches = w->cfg.ops->apply ? BATCHES : 1;
	bool there;

	while (wait_for_packets(w, rd, &there)) {
		atomic_store_explicit(w->alive_ms, boot_ms(), memory_order_relaxed);
		for (int i = 0; there && i < batches && handle_batch(w, rd); i++)
			;
	}
	/*
	 * the rules are paused by now: what still waits gets its verdict, and nothing comes after
	 * it; segments may come all the time
	 */
	while (w->cfg.kind == QUEUE_SYNS && atomic_load(&w->drain) && handle_batch(w, rd))
		;
}

static void *reader_main(void *arg)
{
	struct reader *rd = arg;

	if (rd->bound)
		bind_to_processors(rd->worker);
	if (rd->worker->cfg.kind == QUEUE_SYNS)
		become_realtime(rd->worker);
	else
		become_nice(rd->worker);
	read_queue(rd->worker, rd);
	return NULL;
}

static void reader_free(struct reader *rd)
{
	if (!rd)
		return;
	close_fd(&rd->epoll_fd);
	free(rd->messages);
	free(rd->verdict);
	free(rd);
}

/*
 * Readers of one processor's queue are woken one at a time: a later one when all before it are
 * busy. Returns 0 or -errno.
 */
static int reader_new(struct reader **ret, struct queue_worker *w)
{
	const bool spread = w->cfg.total > 1;
	struct epoll_event stop = { .events = EPOLLIN, .data.fd = w->stop_fd };
	struct epoll_event queue = {
		.events = EPOLLIN | (spread ? EPOLLEXCLUSIVE : 0),
		.data.fd = mnl_socket_get_fd(w->nl),
	};
	struct reader *rd = calloc(1, sizeof(*rd));

	if (!rd)
		return -ENOMEM;
	*rd = (struct reader){
		.worker = w,
		.bound = spread && w->n_readers == 0,
		.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
		.messages = calloc(BATCH, w->message_size),
		.verdict = calloc(1, w->message_size),
	};
	if (!rd->messages || !rd->verdict || rd->epoll_fd < 0 ||
	    epoll_ctl(rd->epoll_fd, EPOLL_CTL_ADD, queue.data.fd, &queue) < 0 ||
	    epoll_ctl(rd->epoll_fd, EPOLL_CTL_ADD, stop.data.fd, &stop) < 0) {
		int r = rd->messages && rd->verdict ? -errno : -ENOMEM;

		reader_free(rd);
		return r;
	}
	*ret = rd;
	return 0;
}

static struct queue_options options_of(const struct queue_worker_config *cfg)
{
	return (struct queue_options){
		.copy_range = cfg->ops->apply ? QUEUE_WHOLE : QUEUE_HEADERS,
		.fail_open = cfg->kind == QUEUE_SYNS,
		.merged = cfg->kind != QUEUE_SYNS,
	};
}

static int take_or_open(struct queue_worker *w, const struct queue_options *opt)
{
	if (w->cfg.kept)
		w->nl = kept_queues_take(w->cfg.kept, w->cfg.num, opt->copy_range, &w->has_mapping);
	return w->nl ? 0 : queue_open(&w->nl, w->cfg.num, opt, &w->has_mapping);
}

int queue_worker_new(struct queue_worker **ret, const struct queue_worker_config *cfg)
{
	const struct queue_options opt = options_of(cfg);
	struct queue_worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->cfg = *cfg;
	w->message_size = (QUEUE_ATTRIBUTES + opt.copy_range + 7u) &
			  ~(size_t)7; /* the next message is aligned, too */
	pthread_mutex_init(&w->ids.lock, NULL);
	atomic_init(&w->realtime, cfg->kind == QUEUE_SYNS);
	table_mutex_init(&w->alive_lock);
	table_mutex_init(&w->order_lock);
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->stop_fd < 0 ? -errno : take_or_open(w, &opt);
	if (r < 0) {
		close_fd(&w->stop_fd);
		pthread_mutex_destroy(&w->alive_lock);
		pthread_mutex_destroy(&w->order_lock);
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
	const unsigned int readers = w->cfg.kind == QUEUE_SYNS ? READERS_MAX : 1;

	w->alive_ms = alive_ms;
	while (w->n_readers < readers) {
		struct reader *rd = NULL;
		int r = reader_new(&rd, w);

		if (r < 0)
			return r;
		r = pthread_create(&rd->thread, NULL, reader_main, rd);
		if (r != 0) {
			reader_free(rd);
			return -r;
		}
		w->readers[w->n_readers++] = rd;
	}
	return 0;
}

int queue_worker_keep(struct queue_worker *w, bool keep)
{
	const struct queue_options opt = options_of(&w->cfg);

	if (w->cfg.kind != QUEUE_SYNS)
		return 0;
	if (keep)
		return kept_queues_put(w->nl, w->cfg.num, opt.copy_range, w->has_mapping);
	kept_queues_drop(w->cfg.num, opt.copy_range, w->has_mapping);
	return 0;
}

void queue_worker_stop(struct queue_worker *w, bool drain)
{
	const uint64_t one = 1;

	if (!w)
		return;
	atomic_store(&w->drain, drain);
	/* nobody reads the eventfd: it stays readable for all */
	if (write(w->stop_fd, &one, sizeof(one)) < 0)
		log_err("queue %u: cannot stop: %s", w->cfg.num, strerror(errno));
	for (unsigned int i = 0; i < w->n_readers; i++) {
		pthread_join(w->readers[i]->thread, NULL);
		reader_free(w->readers[i]);
	}
	/* taken over for a start that failed */
	if (!w->n_readers && w->cfg.kind == QUEUE_SYNS)
		queue_accept_waiting(w->nl, w->cfg.num, QUEUE_MAXLEN);
	mnl_socket_close(w->nl);
	close(w->stop_fd);
	pthread_mutex_destroy(&w->alive_lock);
	pthread_mutex_destroy(&w->order_lock);
	free(w);
}

void queue_worker_counters(struct queue_worker *w, uint64_t *counters)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		counters[i] += atomic_load_explicit(&w->counters[i], memory_order_relaxed);
	counters[w->cfg.kind == QUEUE_SYNS ? COUNTER_QUEUE_DROPPED : COUNTER_SEGMENTS_DROPPED] +=
		atomic_load(&w->ids.lost);
}

bool queue_worker_is_realtime(struct queue_worker *w)
{
	return w->realtime || w->cfg.kind != QUEUE_SYNS;
}

bool queue_worker_has_mapping(struct queue_worker *w)
{
	return w->has_mapping;
}
