/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guardian.h - a second process that answers for the queues when the daemon hangs.
 *
 * When a queue's reader hangs (SIGSTOP, a debugger, a thread stuck in the kernel), the queue stays
 * bound: the rules do not bypass it, and its SYNs wait. The guardian shares the queues' sockets and
 * their heartbeats. While a heartbeat is late, it accepts that queue's packets without a decision:
 * the egress program decides on them, or they pass unshifted. It ends with the daemon.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 64 of each kind. Queues of segments have a heartbeat, but no guardian. */
#define GUARDIAN_QUEUES_MAX 192
/* Age of a heartbeat from which it is late. */
#define GUARDIAN_LATE_MS 300

/* Memory that the daemon and the guardian share; one element for each queue. */
struct guardian_heartbeats {
	atomic_uint_fast64_t beat_ms[GUARDIAN_QUEUES_MAX];  /* boot clock: its thread ran then */
	atomic_uint_fast64_t accepted[GUARDIAN_QUEUES_MAX]; /* packets, by the guardian */
};

struct mnl_socket;
struct guardian_queue {
	struct mnl_socket *nl;
	uint16_t num;
};

/* Returns NULL when there is no memory. It is never freed. */
struct guardian_heartbeats *guardian_heartbeats_new(void);

/*
 * Fork the guardian of N queues; their heartbeats are the first N of BEATS. No thread that holds a
 * lock may run yet. The first heartbeats may come PATIENCE_MS later than others. Returns the
 * process's pid or -errno.
 */
pid_t guardian_start(const struct guardian_queue *queues, size_t n,
		     struct guardian_heartbeats *beats, uint32_t patience_ms);

/* End the process and wait for its end. Does nothing when PID is not positive. */
void guardian_stop(pid_t pid);
