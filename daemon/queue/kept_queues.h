/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kept_queues.h - queues of SYNs that the service manager keeps bound from one daemon to the next,
 * in its file descriptor store (FDSTORE=1, see sd_notify(3)). SYNs that are queued in between wait.
 *
 * Queues of segments are not kept: TCP sends segments again, and those of before the gap would get
 * out of order with those that came in it.
 *
 * The name of a stored descriptor tells how its queue is configured. The next daemon cannot ask the
 * kernel, nor configure the queue again: the answers would come between the packets that wait.
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
	uint32_t copy_range; /* bytes, see struct queue_options */
	bool has_mapping;    /* the kernel attaches mappings to its packets */
};

struct kept_queues {
	struct kept_queue queue[KEPT_QUEUES_MAX];
	size_t n;
};

/*
 * Fill K with the queues that the service manager passed to this process. Other descriptors are
 * closed and removed from the store. To be called once. Returns 0, also without a service manager,
 * or -errno.
 */
int kept_queues_receive(struct kept_queues *k);

/* Is queue NUM in K, neither taken nor given up? */
bool kept_queues_has(const struct kept_queues *k, uint16_t num);

/*
 * Take queue NUM. Packets that the previous daemon read without sending a verdict are accepted; the
 * others still wait. A queue with another copy range (bytes) is given up. Returns the socket, owned
 * by the caller, or NULL when there is no such queue. The service manager's store keeps its copy.
 */
struct mnl_socket *kept_queues_take(struct kept_queues *k, uint16_t num, uint32_t copy_range,
				    bool *ret_has_mapping);

/*
 * Give up the queues that nobody took: accept the SYNs that wait in them, and unbind them, so that
 * the rules bypass them.
 */
void kept_queues_give_up(struct kept_queues *k);

/*
 * Is there a service manager, which may keep queues? Versions of systemd before 254 do not tell
 * whether they do.
 */
bool kept_queues_possible(void);

/*
 * Let the service manager keep a bound queue. To do so again changes nothing. Returns 0 or -errno.
 */
int kept_queues_put(struct mnl_socket *nl, uint16_t num, uint32_t copy_range, bool has_mapping);

/* Let the service manager keep the queue no longer. */
void kept_queues_drop(uint16_t num, uint32_t copy_range, bool has_mapping);

/*
 * Wait until the service manager has read our messages: it may ignore those of a process that has
 * ended. Gives up after two seconds.
 */
void kept_queues_settle(void);
