/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_worker.h - the threads of one netfilter queue: SYNs in, verdicts out. The only sender of
 * verdicts.
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
	/* of the queues of its kind: packets of processor N are in queue N % total */
	uint16_t index, total;
	enum queue_kind kind;
	/*
	 * the datapath rewrites packets: they are copied whole, and a queue is read until it is
	 * seen to be empty
	 */
	bool rewrites;
	/* of packet marks, by which a verdict tells the rules whether the connection is shifted */
	uint32_t mark_mask;
	/* the rules that look at the mark are in the chain that queues, before those that queue */
	bool repeat;
	struct kept_queues *kept; /* from a daemon before us, to take the queue over; or NULL */
	const struct datapath_ops *ops;
	struct datapath *datapath;
	/* for this worker alone, which calls it from one thread at a time; or NULL */
	datapath_knows_fn *knows;
	void *knows_user;
};

struct queue_worker;

/*
 * Bind the queue, or take it over; its packets wait until the worker runs.
 *
 * Returns 0 or -errno: what queue_open() does.
 */
int queue_worker_new(struct queue_worker **ret, const struct queue_worker_config *cfg);

/* Its socket and number, for the guardian. */
struct guardian_queue queue_worker_queue(const struct queue_worker *w);

/*
 * Start the threads, which take SCHED_FIFO where they may, and write the time to *BEAT_MS
 * several times a second. Returns 0 or -errno.
 */
int queue_worker_start(struct queue_worker *w, atomic_uint_fast64_t *beat_ms);

/*
 * Let the service manager keep the queue, or not any more; nothing for QUEUE_SEGMENTS. Returns 0 or
 * -errno.
 */
int queue_worker_keep(struct queue_worker *w, bool keep);

/*
 * End the threads and close the queue: nothing that they have read is left without verdict. With
 * DRAIN nothing that waits is, for which no new packets may come; else it stays for whoever has the
 * queue, too. NULL is allowed.
 */
void queue_worker_stop(struct queue_worker *w, bool drain);

/* Add what this worker counted to COUNTERS[COUNTER_COUNT]. */
void queue_worker_counters(struct queue_worker *w, uint64_t *counters);

/* Or it need not be. */
bool queue_worker_is_realtime(struct queue_worker *w);
/* The kernel attaches the conntrack entry to queued packets. */
bool queue_worker_has_mapping(struct queue_worker *w);
