/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kept_queues.h - queues of SYNs that the service manager keeps bound from one daemon to the next,
 * in its file descriptor store (FDSTORE=1, see sd_notify(3)): what is queued in between waits.
 * Queues that fail open; segments of shifted connections are not kept, as TCP sends them again, and
 * the order of what was there before a gap and what came in it would be lost.
 *
 * Names of kept descriptors tell how the queue is set up, because to ask for it or to set it again
 * would mix the kernel's answers with the packets that wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue_netlink.h"

#define KEPT_QUEUES_MAX 64 /* FileDescriptorStoreMax= of the units */
#define KEPT_NAME_MAX 48

struct kept_queue {
	struct mnl_socket *nl; /* owned; NULL once it was taken or given up */
	uint16_t num;
	uint32_t copy_range;
	bool has_mapping; /* mappings are attached */
};

struct kept_queues {
	struct kept_queue queue[KEPT_QUEUES_MAX];
	size_t n;
};

/*
 * What the service manager passed to this process. Everything that is no queue of ours is closed
 * and dropped from the store. To be called once. Returns 0 or -errno; without a service manager
 * there are none.
 */
int kept_queues_receive(struct kept_queues *k);

/* Is the queue NUM among those that are still there? */
bool kept_queues_has(const struct kept_queues *k, uint16_t num);

/*
 * Take the queue NUM over, if it is there. One with another copy range is given up. What the last
 * owner had read and not answered is accepted here. NULL when there is none; the socket is the
 * caller's, and the store keeps its own.
 */
struct mnl_socket *kept_queues_take(struct kept_queues *k, uint16_t num, uint32_t copy_range,
				    bool *ret_has_mapping);

/*
 * Those that nobody took: SYNs that wait in them pass, they are unbound, and rules bypass them from
 * now on.
 */
void kept_queues_give_up(struct kept_queues *k);

/*
 * Is there a service manager that could keep any? Whether it does, none older than systemd 254
 * tells.
 */
bool kept_queues_possible(void);

/*
 * Let the service manager keep a bound queue; one that it has already is kept once. Returns 0 or
 * -errno.
 */
int kept_queues_put(struct mnl_socket *nl, uint16_t num, uint32_t copy_range, bool has_mapping);

/* It keeps the queue no more. */
void kept_queues_drop(uint16_t num, uint32_t copy_range, bool has_mapping);

/*
 * Wait until the service manager has heard of all this: messages of a process that has ended may
 * not count.
 */
void kept_queues_settle(void);
