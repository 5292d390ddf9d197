/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_reader.h - the three files of a queue's threads share this: queue_worker.c starts and ends
 * the threads, queue_reader.c is their loop, and queue_handle.c handles a packet.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "queue_netlink.h"
#include "queue_worker.h"

#define QUEUE_BATCH 32 /* packets */
#define QUEUE_READERS_MAX 2

/*
 * Counts packets that were lost because the socket was full. The kernel numbers packets before it
 * puts them into the socket, so numbers of lost packets are missing. (The socket is always full
 * before the queue is: see QUEUE_MAXLEN.) The kernel counts lost packets, too, but only root may
 * read that.
 */
struct queue_ids {
	pthread_mutex_t lock;
	bool any;
	uint32_t first, last; /* the lowest and the highest number seen, serially */
	uint32_t seen;	      /* how many numbers, modulo 2^32 */
	atomic_uint lost;
};

struct queue_worker {
	struct queue_worker_config cfg;
	struct mnl_socket *nl;
	int stop_fd;
	atomic_bool drain; /* at the end: send verdicts on all packets that wait */
	struct queue_reader *readers[QUEUE_READERS_MAX];
	unsigned int n_readers;
	atomic_uint busy; /* readers that may have packets without verdict */
	bool has_mapping;
	atomic_bool realtime;
	atomic_uint_fast64_t empty_ns; /* boot clock: nothing waited then */
	pthread_mutex_t knows_lock;    /* of cfg.knows */
	atomic_uint_fast64_t *beat_ms;
	atomic_uint_fast64_t counters[COUNTER_COUNT];
	struct queue_ids ids;
	struct log_limit overruns, refusals;
	size_t message_size;
};

/* One thread, its buffers, and the packets of its batch that need a verdict. */
struct queue_reader {
	struct queue_worker *worker;
	pthread_t thread;
	int epoll_fd;
	bool bound;			  /* to the processors of its queue */
	uint32_t unanswered[QUEUE_BATCH]; /* numbers of packets that need a verdict */
	unsigned int n_unanswered;
	unsigned int seen; /* packets in the batch */
	uint32_t first_id, last_id;
	uint64_t empty_ns; /* boot clock: packets of the batch came later */
	char *messages;	   /* room for QUEUE_BATCH messages; owned */
	char *verdict;	   /* room for one verdict with its packet; owned */
};

static inline void queue_count(struct queue_worker *w, enum counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&w->counters[c], n, memory_order_relaxed);
}

/* queue_handle.c */

/*
 * Count or log an error of a message from the kernel, or of a verdict that the kernel refused.
 * ERROR is -errno.
 */
void queue_on_error(struct queue_worker *w, int error);
/*
 * Hand a packet to the datapath, and send its verdict. A packet that may share a verdict with
 * others gets it from queue_handle_verdicts().
 */
void queue_handle(struct queue_worker *w, struct queue_reader *rd, const struct queue_packet *q);
/* Accept all packets of the reader's batch that have no verdict yet. */
void queue_handle_verdicts(struct queue_worker *w, struct queue_reader *rd);

/* queue_reader.c */

/* Make a reader of W. Its thread is not started. Returns 0 or -errno. */
int queue_reader_new(struct queue_reader **ret, struct queue_worker *w);
void queue_reader_free(struct queue_reader *rd);
/* The main function of a reader's thread; ARG is the reader. */
void *queue_reader_main(void *arg);
