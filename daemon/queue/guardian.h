/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * guardian.h - a second process that answers for the queues when the daemon hangs.
 *
 * A queue whose reader hangs (SIGSTOP, a debugger, a thread stuck in the kernel) is not bypassed:
 * it is bound, so its SYNs wait. The guardian shares the queues' sockets and a heartbeat; while a
 * heartbeat is late it accepts that queue's packets, undecided. The egress program decides on them,
 * or they pass unshifted. It ends with the daemon.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 64 of each kind. Queues of segments have a heartbeat, but no guardian. */
#define GUARDIAN_QUEUES_MAX 192
/* A heartbeat older than this is late. */
#define GUARDIAN_LATE_MS 300

/*
 * In shared memory: when each queue's thread was last seen to run, in milliseconds of the boot
 * clock.
 */
struct guardian_heartbeats {
	atomic_uint_fast64_t beat_ms[GUARDIAN_QUEUES_MAX];
	atomic_uint_fast64_t accepted[GUARDIAN_QUEUES_MAX]; /* by the guardian */
};

struct mnl_socket;
struct guardian_queue {
	struct mnl_socket *nl;
	uint16_t num;
};

/* Shared memory for the heartbeats, or NULL. */
struct guardian_heartbeats *guardian_heartbeats_new(void);

/*
 * Start the process; to be called before any thread runs. The first heartbeat may come as late as
 * PATIENCE_MS. Returns its pid or -errno.
 */
pid_t guardian_start(const struct guardian_queue *queues, size_t n,
		     struct guardian_heartbeats *beats, uint32_t patience_ms);

/* End it and wait for it. Does nothing when PID is not positive. */
void guardian_stop(pid_t pid);
