/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_worker.h - the threads of one netfilter queue. They alone send verdicts while they run.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/datapath.h"
#include "guardian.h"
#include "kept_queues.h"

enum queue_kind {
	/* At real-time priority. When there is no room, SYNs pass undecided. */
	QUEUE_SYNS,
	/*
	 * Of shifted connections, which a segment without shift would break. When there is no room,
	 * segments are dropped, and TCP sends them again.
	 */
	QUEUE_SEGMENTS,
};

struct queue_worker_config {
	uint16_t num;
	/* among the queues of its kind: packets of processor N are in queue N % total */
	uint16_t index, total;
	enum queue_kind kind;
	/* the datapath rewrites packets: they are copied whole, and queues are read until empty */
	bool rewrites;
	/* bits of the packet mark: they tell the rules whether the connection is shifted */
	uint32_t mark_mask;
	/*
	 * The rules that look at the mark come before those that queue, in the same chain: marked
	 * packets go through the chain again.
	 */
	bool repeat;
	struct kept_queues *kept; /* the previous daemon's queues, to take this one from; or NULL */
	const struct datapath_ops *ops;
	struct datapath *datapath;
	/* called by one thread of this worker at a time; NULL when conntrack cannot be asked */
	datapath_knows_fn *knows;
	void *knows_user;
};

struct queue_worker;

/*
 * Bind the queue, or take it from the kept ones. Its packets wait until queue_worker_start().
 * Returns 0 or an error of queue_open().
 */
int queue_worker_new(struct queue_worker **ret, const struct queue_worker_config *cfg);

/* The queue's socket, still owned by W, and its number. */
struct guardian_queue queue_worker_queue(const struct queue_worker *w);

/*
 * Start the threads. Readers of SYNs take SCHED_FIFO if they may. All write the time (boot clock,
 * ms) to *BEAT_MS several times a second. Returns 0 or -errno.
 */
int queue_worker_start(struct queue_worker *w, atomic_uint_fast64_t *beat_ms);

/*
 * Let the service manager KEEP the queue, or no longer. Does nothing for QUEUE_SEGMENTS. Returns 0
 * or -errno.
 */
int queue_worker_keep(struct queue_worker *w, bool keep);

/*
 * End the threads, close the queue and free W. All packets that were read have got their verdicts.
 * With DRAIN so have all SYNs that waited; then the rules must not queue new ones any more. Without
 * it they stay for the holder of another copy of the socket. NULL is allowed.
 */
void queue_worker_stop(struct queue_worker *w, bool drain);

/* Add the counters of this worker to COUNTERS[COUNTER_COUNT]. */
void queue_worker_counters(struct queue_worker *w, uint64_t *counters);

/* False when the readers of SYNs did not get real-time priority. Always true for segments. */
bool queue_worker_is_realtime(struct queue_worker *w);
/* Does the kernel attach mappings to the queue's packets? */
bool queue_worker_has_mapping(struct queue_worker *w);
