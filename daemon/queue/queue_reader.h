/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_reader.h - a queue's threads, between the three files that make them up: queue_worker.c
 * starts and ends them, queue_reader.c is what each of them does, and queue_handle.c what becomes
 * of a packet.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "queue_netlink.h"
#include "queue_worker.h"

#define QUEUE_BATCH 32
#define QUEUE_READERS_MAX 2

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
	struct queue_reader *readers[QUEUE_READERS_MAX];
	unsigned int n_readers;
	atomic_uint busy; /* readers that hold packets without verdict */
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

/* What one thread waits at and reads into, and which packets still need a verdict. */
struct queue_reader {
	struct queue_worker *worker;
	pthread_t thread;
	int epoll_fd;
	bool bound;			  /* to the processors of its queue */
	uint32_t unanswered[QUEUE_BATCH]; /* numbers of packets that need a verdict */
	unsigned int n_unanswered;
	unsigned int seen; /* packets in the batch, and their numbers */
	uint32_t first_id, last_id;
	uint64_t empty_ns; /* boot clock: what it holds came later */
	char *messages;	   /* QUEUE_BATCH of them; owned */
	char *verdict;	   /* one; owned */
};

static inline void queue_count(struct queue_worker *w, enum counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&w->counters[c], n, memory_order_relaxed);
}

/* queue_handle.c */

/* A message or a verdict that the kernel or we did not take: ERROR is -errno. Counted or told. */
void queue_on_error(struct queue_worker *w, int error);
/*
 * Hand a packet to the datapath, and send its verdict; one that may be shared comes with
 * queue_handle_verdicts().
 */
void queue_handle(struct queue_worker *w, struct queue_reader *rd, const struct queue_packet *q);
/* Verdicts for all packets that the reader holds. */
void queue_handle_verdicts(struct queue_worker *w, struct queue_reader *rd);

/* queue_reader.c */

/* Returns 0 or -errno. The thread is not started. */
int queue_reader_new(struct queue_reader **ret, struct queue_worker *w);
void queue_reader_free(struct queue_reader *rd);
/* Of the thread; ARG is the reader. */
void *queue_reader_main(void *arg);
