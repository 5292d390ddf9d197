// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes as messages of nfnetlink_queue: each attribute that the parser returns lies within it.
 * The seeds are packets; a message header is put in front when the first byte asks for it, so that
 * the attributes' parser is reached at once.
 */
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <stdint.h>
#include <string.h>

#include "core/packet.h"
#include "queue/queue_netlink.h"
#include "base/util.h"

#define MUST(x)                           \
	do {                              \
		if (!(x))                 \
			__builtin_trap(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_Alignas(8) char buf[4096] = { 0 };
	const size_t headers = sizeof(struct nlmsghdr) + sizeof(struct nfgenmsg);
	struct nlmsghdr *nlh = (void *)buf;
	int left;

	if (size < 1 || size > sizeof(buf) - headers)
		return 0;
	if (data[0] & 1) {
		memcpy(buf + headers, data + 1, size - 1);
		left = (int)(headers + size - 1);
		*nlh = (struct nlmsghdr){ .nlmsg_len = (uint32_t)left,
					  .nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET };
	} else {
		memcpy(buf, data + 1, size - 1);
		left = (int)size - 1;
	}
	for (; nlmsg_fits(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		struct queue_packet q;
		struct wire_packet pkt;

		if (queue_parse(nlh, &q) != 1 || !q.len)
			continue;
		MUST((const char *)q.data >= (const char *)nlh);
		/* libmnl lets the last attribute reach into the message's padding */
		MUST((const char *)q.data + q.len <= (const char *)nlh + MNL_ALIGN(nlh->nlmsg_len));
		packet_parse(q.data, q.len, &pkt);
	}
	return 0;
}
