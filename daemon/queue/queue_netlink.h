/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * queue_netlink.h - the messages of nfnetlink_queue: configuration, packets, verdicts.
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"

/* Copy range in bytes: IPv6, some extension headers, and the whole TCP header. */
#define QUEUE_HEADERS 320
/* Copy range of whole packets: the kernel copies up to 65531 bytes. */
#define QUEUE_WHOLE 0xffff
/* Bytes of the socket's buffer. The default size holds only 166 packets. */
#define QUEUE_RCVBUF (8 << 20)
/*
 * How many packets may wait for a verdict. The socket is always full before: a packet takes over
 * 768 bytes there, of twice QUEUE_RCVBUF.
 */
#define QUEUE_MAXLEN 32768
/* The most bytes of a message beside the packet. */
#define QUEUE_ATTRIBUTES 1728

struct queue_options {
	uint32_t copy_range; /* QUEUE_HEADERS or QUEUE_WHOLE */
	bool fail_open;	     /* packets for which there is no room pass, else they are dropped */
	/* packets may come merged (GSO), and with partial checksums */
	bool merged;
};

/* A packet from the queue. */
struct queue_packet {
	uint32_t id;	  /* host order, rising */
	uint8_t *data;	  /* in the message, from the network header on; NULL without payload */
	uint32_t len;	  /* of DATA in bytes: not more than the copy range */
	bool cut;	  /* the packet is longer than DATA */
	bool partial;	  /* its checksum covers the pseudo header alone */
	bool outbound;	  /* queued in postrouting */
	uint32_t mark;	  /* host order */
	bool has_mapping; /* the kernel attached its mapping: the next two are valid */
	bool translated;  /* the source was translated */
	struct inside inside;
};

/*
 * May this process configure queues? Returns 0 or -errno: -EPERM without CAP_NET_ADMIN, -EOPNOTSUPP
 * when the kernel has no nfnetlink_queue.
 */
int queue_permission(void);

/*
 * Could queue NUM be bound? Changes nothing, also when another program has bound it. Returns 0 or
 * -errno: -EBUSY when another program has it, or an error of queue_permission().
 */
int queue_probe(uint16_t num);

/*
 * Open a socket, owned by the caller, and bind queue NUM to it. *RET_HAS_MAPPING: the kernel
 * attaches mappings to packets. Packets that arrive before the queue is configured are accepted if
 * it fails open; else they are dropped, and TCP sends them again.
 *
 * Returns 0 or -errno: -EOPNOTSUPP when the kernel has no nfnetlink_queue; -EBUSY when another
 * program has the queue. The kernel's answer is the same without CAP_NET_ADMIN; queue_probe() tells
 * one from the other.
 */
int queue_open(struct mnl_socket **ret, uint16_t num, const struct queue_options *opt,
	       bool *ret_has_mapping);

/*
 * Parse one netlink message, whose length was checked. *RET points into it. Returns 1 for a packet;
 * 0 for other messages; -EBADMSG when it is malformed; or the -errno in an answer of the kernel.
 */
int queue_parse(const struct nlmsghdr *nlh, struct queue_packet *ret);

/* Accept the packet ID, or with UP_TO every waiting packet up to it. Returns 0 or -errno. */
int queue_accept(struct mnl_socket *nl, uint16_t num, uint32_t id, bool up_to);

/* Read and accept the packets that wait now, at most MAX messages. Returns how many packets. */
unsigned int queue_accept_waiting(struct mnl_socket *nl, uint16_t num, unsigned int max);

/*
 * For a bound queue whose reader has ended: accept the packets that it had read without sending a
 * verdict, because nobody can read them again. Unread packets go on waiting. When there are no such
 * packets, the kernel answers with an error, which queue_parse() ignores.
 */
void queue_forget_read(struct mnl_socket *nl, uint16_t num);

/* A verdict on one packet. Without any of the flags and without DATA it accepts the packet. */
struct queue_verdict {
	uint32_t id;
	bool drop;
	bool repeat; /* the packet goes through the chain that queued it once more */
	bool set_mark;
	uint32_t mark; /* host order */
	/* the whole changed packet, with a complete checksum; NULL: it leaves unchanged */
	const uint8_t *data;
	uint32_t len; /* bytes */
};

/*
 * BUF has room for a message of SIZE bytes, which must be QUEUE_ATTRIBUTES and the packet's length.
 * Returns 0 or -errno: -EMSGSIZE when SIZE is less.
 */
int queue_send_verdict(struct mnl_socket *nl, uint16_t num, const struct queue_verdict *v,
		       char *buf, size_t size);
