/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_netlink.h - the messages of nfnetlink_queue: configuration, packets, verdicts.
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"

#define QUEUE_COPY_RANGE 320  /* bytes: IPv6, some extension headers, and all of TCP's header */
#define QUEUE_MAXLEN 8192     /* packets that may wait before fail-open lets SYNs pass undecided */
#define QUEUE_RCVBUF (8 << 20) /* the default holds 166 packets */
#define QUEUE_MESSAGE_SIZE 2048

/* A packet as the queue hands it over. */
struct queue_packet {
	uint32_t id; /* host order, rising */
	const uint8_t *data;
	uint32_t len;	    /* of DATA: not more than the copy range */
	bool has_mapping;   /* the kernel attached the conntrack entry: the next two are valid */
	bool translated;    /* the source was translated */
	struct inside inside;
};

/*
 * Open a socket and bind queue NUM with everything set: header-only copies, fail-open, conntrack where there is.
 *
 * Returns 0 or -errno: -EBUSY when another program has the queue.
 */
int queue_open(struct mnl_socket **ret, uint16_t num, bool *ret_conntrack);

/*
 * Read one netlink message. Returns 1 for a packet, 0 for something else, -errno for a message that is malformed or
 * that reports an error of the kernel.
 */
int queue_parse(const struct nlmsghdr *nlh, struct queue_packet *ret);

/* Accept the packet ID, or with UP_TO every waiting packet up to it. Returns 0 or -errno. */
int queue_accept(struct mnl_socket *nl, uint16_t num, uint32_t id, bool up_to);

/* What the kernel dropped from queue NUM, ever: no room in the queue or in the socket. Returns 0 or -errno. */
int queue_read_drops(uint16_t num, uint64_t *ret_drops);
