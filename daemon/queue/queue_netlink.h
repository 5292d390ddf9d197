/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_netlink.h - the messages of nfnetlink_queue: configuration, packets, verdicts.
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"

#define QUEUE_HEADERS 320 /* bytes: IPv6, some extension headers, and all of TCP's header */
/* the longest packet that the kernel does not leave to be cut by the device */
#define QUEUE_WHOLE 0xffff
/* bytes: what waits beyond this is lost, or passes undecided; the default holds 166 packets */
#define QUEUE_RCVBUF (8 << 20)
/*
 * Packets without verdict: more than the socket can hold, as a packet takes over 768 bytes of twice
 * QUEUE_RCVBUF there.
 */
#define QUEUE_MAXLEN 32768
#define QUEUE_ATTRIBUTES 1728 /* bytes of a message beside the packet's own */

struct queue_options {
	uint32_t copy_range; /* QUEUE_HEADERS or QUEUE_WHOLE */
	bool fail_open;	     /* what there is no room for passes, else it is dropped */
	/* packets may come as the kernel handles them: merged, with a partial checksum */
	bool merged;
};

/* A packet as the queue hands it over. */
struct queue_packet {
	uint32_t id;   /* host order, rising */
	uint8_t *data; /* in the message; NULL when it has none */
	uint32_t len;  /* of DATA: not more than the copy range */
	bool cut;      /* the packet is longer than that */
	bool partial;  /* its checksum covers the pseudo header alone */
	bool outbound; /* queued in postrouting */
	uint32_t mark;
	bool has_mapping; /* the kernel attached the conntrack entry: the next two are valid */
	bool translated;  /* the source was translated */
	struct inside inside;
};

/*
 * May this process command queues? Returns 0 or -errno: -EPERM without CAP_NET_ADMIN, -EOPNOTSUPP
 * when the kernel has no nfnetlink_queue.
 */
int queue_permission(void);

/*
 * Could the queue be bound? Changes nothing, neither for the queue nor for who has it. Returns 0 or
 * -errno: -EBUSY when another program has it, and what queue_permission() does.
 */
int queue_probe(uint16_t num);

/*
 * Open a socket and bind queue NUM with everything set, conntrack too where there is. Packets that
 * came meanwhile are accepted where the queue fails open; else they are dropped, for TCP to send
 * again.
 *
 * Returns 0 or -errno: -EBUSY when another program has the queue, or without CAP_NET_ADMIN, for
 * which the kernel answers the same: queue_probe() tells one from the other. -EOPNOTSUPP when the
 * kernel has no nfnetlink_queue.
 */
int queue_open(struct mnl_socket **ret, uint16_t num, const struct queue_options *opt,
	       bool *ret_has_mapping);

/*
 * Read one netlink message. Returns 1 for a packet, 0 for something else, -errno for a message that
 * is malformed or that reports an error of the kernel.
 */
int queue_parse(const struct nlmsghdr *nlh, struct queue_packet *ret);

/* Accept the packet ID, or with UP_TO every waiting packet up to it. Returns 0 or -errno. */
int queue_accept(struct mnl_socket *nl, uint16_t num, uint32_t id, bool up_to);

/* Read what waits now, at most MAX messages, and accept it. Returns how many packets that were. */
unsigned int queue_accept_waiting(struct mnl_socket *nl, uint16_t num, unsigned int max);

/*
 * For a bound queue whose reader is gone: accept packets that it had read and not answered, which
 * nobody can read again. What was not read stays. There may be none of them, which the kernel will
 * call an error in a message that queue_parse() leaves out.
 */
void queue_forget_read(struct mnl_socket *nl, uint16_t num);

/* A verdict that does something else than to accept. */
struct queue_verdict {
	uint32_t id;
	bool drop;   /* it cannot be made right */
	bool repeat; /* the packet goes through the chain that queued it once more */
	bool set_mark;
	uint32_t mark;
	/* what the packet becomes, whole, with a complete checksum; NULL: it stays as it is */
	const uint8_t *data;
	uint32_t len;
};

/* BUF of SIZE is room for the message: the packet and QUEUE_ATTRIBUTES. Returns 0 or -errno. */
int queue_send_verdict(struct mnl_socket *nl, uint16_t num, const struct queue_verdict *v,
		       char *buf, size_t size);
