// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * queue_reader.c - the thread that reads a queue's packets, and does nothing else.
 *
 * While a SYN waits, conntrack does not know its tuple, and NAT may give the tuple to another SYN.
 * So the thread has real-time priority and runs as soon as a SYN is queued. It reads only packets
 * that are already there, and does nothing before their verdicts that could block.
 *
 * Where each processor has a queue of its own, the queue's first reader is bound to that processor:
 * it runs as soon as the kernel has queued the SYN there, and no other processor has to wake up.
 * While it is busy, a second reader, which may run anywhere, takes the next packets. Measured with
 * one and two busy clients, 8 000 ports, two processors, medians of six alternated runs: 1.09
 * and 1.39 times the requests of one queue for all processors; no clash with one client, with two
 * one in 1 200 connections, with one queue for all one in 950.
 *
 * One queue for all processors has two readers, too. A SYN wakes both, and whichever runs first
 * takes it: both are seldom delayed at the same time. Waking only one of them cost 19 to 35 clashes
 * in 30 000 connections of one client, instead of none.
 *
 * Segments of shifted connections have one reader, which keeps their order.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "guardian.h"
#include "base/log.h"
#include "queue_reader.h"
#include "base/util.h"

/* Batches that are read in a row; then the thread looks whether it is to stop. */
#define BATCHES 64
#define REALTIME_PRIORITY 10
#define SEGMENTS_NICE (-15)
#define WAKE_MS (GUARDIAN_LATE_MS / 3)

/* The consequence of a full socket, for the log. */
static const char *loss_text(const struct queue_worker *w)
{
	return w->cfg.kind == QUEUE_SYNS ? "SYNs passed undecided by the daemon"
					 : "segments were dropped, and will be sent again";
}

static void on_receive_error(struct queue_worker *w, int error)
{
	if (error == ENOBUFS) {
		queue_count(w, COUNTER_QUEUE_OVERRUNS, 1);
		if (log_limit_ok(&w->overruns, boot_ms()))
			log_warn("queue %u: the socket buffer was full; %s", w->cfg.num,
				 loss_text(w));
		return;
	}
	if (log_limit_ok(&w->refusals, boot_ms()))
		log_warn("queue %u: cannot receive: %s", w->cfg.num, strerror(error));
}

static void note_id(struct queue_reader *rd, uint32_t id)
{
	if (rd->seen++ == 0)
		rd->first_id = id;
	rd->last_id = id;
}

/*
 * Note the numbers of a batch, and count missing ones when no other reader is busy: a packet that
 * another reader has read but not noted yet is not lost. Packets that come after that have higher
 * numbers.
 */
static void end_batch(struct queue_worker *w, struct queue_reader *rd)
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

static void handle_messages(struct queue_worker *w, struct queue_reader *rd, const void *buf,
			    size_t len)
{
	const struct nlmsghdr *nlh = buf;
	int left = (int)len;

	for (; nlmsg_fits(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		struct queue_packet q;
		int r = queue_parse(nlh, &q);

		if (r < 0)
			queue_on_error(w, r);
		if (r <= 0)
			continue;
		note_id(rd, q.id);
		queue_handle(w, rd, &q);
	}
}

/* Read and handle the messages that wait now, at most one batch. Returns how many, or -errno. */
static int receive(struct queue_worker *w, struct queue_reader *rd)
{
	struct mmsghdr msgs[QUEUE_BATCH];
	struct iovec iov[QUEUE_BATCH];
	int n;

	for (size_t i = 0; i < QUEUE_BATCH; i++) {
		iov[i] = (struct iovec){ .iov_base = rd->messages + i * w->message_size,
					 .iov_len = w->message_size };
		msgs[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	n = recvmmsg(mnl_socket_get_fd(w->nl), msgs, QUEUE_BATCH, MSG_DONTWAIT, NULL);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		handle_messages(w, rd, iov[i].iov_base, msgs[i].msg_len);
	return n;
}

/* Handle the packets that wait now, at most one batch. Returns false when none waited. */
static bool handle_batch(struct queue_worker *w, struct queue_reader *rd)
{
	uint64_t now_ns = boot_ns();
	int n;

	atomic_store_explicit(w->beat_ms, now_ns / 1000000, memory_order_relaxed);
	atomic_fetch_add(&w->busy, 1);
	/*
	 * Read this before the packets: when another reader finds the queue empty later, that says
	 * nothing about the packets that this reader took.
	 */
	rd->empty_ns = atomic_load(&w->empty_ns);
	n = receive(w, rd);
	if (rd->n_unanswered)
		queue_handle_verdicts(w, rd);
	end_batch(w, rd);
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

	/* One line for all readers of the queue. */
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
static bool wait_for_packets(struct queue_worker *w, struct queue_reader *rd, bool *there)
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
 * Segments must not wait long: TCP would send them again, and after a second FIN conntrack would
 * give the tuple away before the connection is over. But at real-time priority bulk data would
 * leave no time for other processes.
 */
static void become_nice(struct queue_worker *w)
{
	/* On Linux this changes the calling thread alone. */
	if (setpriority(PRIO_PROCESS, 0, SEGMENTS_NICE) < 0)
		log_debug("queue %u: nice value %d was refused: %s", w->cfg.num, SEGMENTS_NICE,
			  strerror(errno));
}

static void read_queue(struct queue_worker *w, struct queue_reader *rd)
{
	/*
	 * Where the datapath rewrites packets, read until the queue is empty:
	 * datapath_packet.empty_ns shows which packets did not wait at the same time.
	 */
	const int batches = w->cfg.rewrites ? BATCHES : 1;
	bool there;

	while (wait_for_packets(w, rd, &there)) {
		atomic_store_explicit(w->beat_ms, boot_ms(), memory_order_relaxed);
		for (int i = 0; there && i < batches && handle_batch(w, rd); i++)
			;
	}
	/*
	 * SYNs that still wait get their verdicts. This ends, because the rules queue no more SYNs
	 * by now. Segments may still come, so for them it would not end.
	 */
	while (w->cfg.kind == QUEUE_SYNS && atomic_load(&w->drain) && handle_batch(w, rd))
		;
}

void *queue_reader_main(void *arg)
{
	struct queue_reader *rd = arg;

	if (rd->bound)
		bind_to_processors(rd->worker);
	if (rd->worker->cfg.kind == QUEUE_SYNS)
		become_realtime(rd->worker);
	else
		become_nice(rd->worker);
	read_queue(rd->worker, rd);
	return NULL;
}

void queue_reader_free(struct queue_reader *rd)
{
	if (!rd)
		return;
	close_fd(&rd->epoll_fd);
	free(rd->messages);
	free(rd->verdict);
	free(rd);
}

/*
 * With a queue for each processor, EPOLLEXCLUSIVE wakes one reader at a time: the second one only
 * while the first is busy.
 */
int queue_reader_new(struct queue_reader **ret, struct queue_worker *w)
{
	const bool spread = w->cfg.total > 1;
	struct epoll_event stop = { .events = EPOLLIN, .data.fd = w->stop_fd };
	struct epoll_event queue = {
		.events = EPOLLIN | (spread ? EPOLLEXCLUSIVE : 0),
		.data.fd = mnl_socket_get_fd(w->nl),
	};
	struct queue_reader *rd = calloc(1, sizeof(*rd));

	if (!rd)
		return -ENOMEM;
	*rd = (struct queue_reader){
		.worker = w,
		.bound = spread && w->n_readers == 0,
		.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
		.messages = calloc(QUEUE_BATCH, w->message_size),
		.verdict = calloc(1, w->message_size),
	};
	if (!rd->messages || !rd->verdict || rd->epoll_fd < 0 ||
	    epoll_ctl(rd->epoll_fd, EPOLL_CTL_ADD, queue.data.fd, &queue) < 0 ||
	    epoll_ctl(rd->epoll_fd, EPOLL_CTL_ADD, stop.data.fd, &stop) < 0) {
		int r = rd->messages && rd->verdict ? -errno : -ENOMEM;

		queue_reader_free(rd);
		return r;
	}
	*ret = rd;
	return 0;
}
