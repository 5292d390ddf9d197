// SPDX-License-Identifier: GPL-2.0-or-later
#include <arpa/inet.h>
#include <errno.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "net/mapping.h"
#include "queue_netlink.h"
#include "base/util.h"

static struct nlmsghdr *config_message(char *buf, uint16_t num, uint16_t flags)
{
	struct nlmsghdr *nlh = nfq_nlmsg_put(buf, NFQNL_MSG_CONFIG, num);

	nlh->nlmsg_flags |= flags;
	nlh->nlmsg_seq = 1;
	return nlh;
}

/* A queue that is being configured. Packets may arrive between the kernel's answers. */
struct opening {
	struct mnl_socket *nl;
	uint16_t num;
	bool early;	   /* packets arrived */
	uint32_t early_id; /* the last one's number */
};

/* Returns 1 when the message is an answer, with its 0 or -errno in *RET, else 0. */
static int on_config_answer(struct opening *o, const struct nlmsghdr *nlh, int *ret)
{
	struct queue_packet q;
	int r = queue_parse(nlh, &q);

	if (nlh->nlmsg_type == NLMSG_ERROR) {
		*ret = r;
		return 1;
	}
	if (r == 1) {
		o->early = true;
		o->early_id = q.id;
	}
	return 0;
}

/* Send a configuration message and wait for the kernel's answer to it. Returns 0 or -errno. */
static int config_send(struct opening *o, struct nlmsghdr *nlh)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	int r;

	if (mnl_socket_sendto(o->nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		ssize_t n = mnl_socket_recvfrom(o->nl, buf, sizeof(buf));
		const struct nlmsghdr *a = (const struct nlmsghdr *)buf;

		if (n < 0 && errno != ENOBUFS)
			return -errno;
		if (n > 0 && nlmsg_fits(a, (int)n) && on_config_answer(o, a, &r))
			return r;
	}
}

static int config_flag(struct opening *o, uint32_t flag)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = config_message(buf, o->num, NLM_F_ACK);

	mnl_attr_put_u32(nlh, NFQA_CFG_FLAGS, htonl(flag));
	mnl_attr_put_u32(nlh, NFQA_CFG_MASK, htonl(flag));
	return config_send(o, nlh);
}

/* One message, because a queue that is bound but has no copy mode yet drops packets. */
static int config_bind(struct opening *o, const struct queue_options *opt)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = config_message(buf, o->num, NLM_F_ACK);
	int r;

	nfq_nlmsg_cfg_put_cmd(nlh, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
	nfq_nlmsg_cfg_put_params(nlh, NFQNL_COPY_PACKET, (int)opt->copy_range);
	mnl_attr_put_u32(nlh, NFQA_CFG_QUEUE_MAXLEN, htonl(QUEUE_MAXLEN));
	r = config_send(o, nlh);
	return r == -EINVAL ? -EOPNOTSUPP : r == -EPERM ? -EBUSY : r;
}

/*
 * Try to set a parameter of a queue that we have not bound. The kernel refuses it: by EPERM when
 * another program has bound the queue, by ENODEV when none has.
 */
static int ask_owner(struct opening *o)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = config_message(buf, o->num, NLM_F_ACK);
	int r;

	mnl_attr_put_u32(nlh, NFQA_CFG_QUEUE_MAXLEN, htonl(QUEUE_MAXLEN));
	r = config_send(o, nlh);
	return r == -ENODEV ? 0 : r == -EPERM ? -EBUSY : r;
}

/* Send a command that needs CAP_NET_ADMIN, and that does nothing since Linux 3.8. */
static int ask_permission(struct opening *o)
{
	char buf[MNL_SOCKET_BUFFER_SIZE];
	struct nlmsghdr *nlh = config_message(buf, 0, NLM_F_ACK);
	int r;

	nfq_nlmsg_cfg_put_cmd(nlh, AF_INET, NFQNL_CFG_CMD_PF_BIND);
	r = config_send(o, nlh);
	return r == -EINVAL ? -EOPNOTSUPP : r;
}

static int ask(int (*question)(struct opening *o), uint16_t num)
{
	const struct timeval patience = { .tv_sec = 2 };
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	struct opening o = { .nl = nl, .num = num };
	int r;

	if (!nl)
		return errno == EPROTONOSUPPORT ? -EOPNOTSUPP : -errno;
	setsockopt(mnl_socket_get_fd(nl), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	r = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : question(&o);
	mnl_socket_close(nl);
	return r;
}

int queue_permission(void)
{
	return ask(ask_permission, 0);
}

int queue_probe(uint16_t num)
{
	int r = queue_permission();

	return r < 0 ? r : ask(ask_owner, num);
}

/* Send VERDICT on the packet ID and on all that wait before it. SEQ is the message's number. */
static int verdict_up_to(struct mnl_socket *nl, uint16_t num, uint32_t id, int verdict,
			 uint32_t seq)
{
	char buf[256];
	struct nlmsghdr *nlh = nfq_nlmsg_put(buf, NFQNL_MSG_VERDICT_BATCH, num);

	nlh->nlmsg_seq = seq;
	nfq_nlmsg_verdict_put(nlh, (int)id, verdict);
	return mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -errno : 0;
}

static int bind_queue(struct opening *o, const struct queue_options *opt)
{
	int r;

	if (mnl_socket_bind(o->nl, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	r = config_bind(o, opt);
	if (r < 0 || !opt->fail_open)
		return r;
	/* One message for each flag: the kernel refuses a message for one flag that it lacks. */
	return config_flag(o, NFQA_CFG_F_FAIL_OPEN);
}

int queue_open(struct mnl_socket **ret, uint16_t num, const struct queue_options *opt,
	       bool *ret_has_mapping)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	const int size = QUEUE_RCVBUF;
	const struct timeval patience = { .tv_sec = 2 };
	struct opening o = { .nl = nl, .num = num };
	int r, fd;

	if (!nl)
		return errno == EPROTONOSUPPORT ? -EOPNOTSUPP : -errno;
	fd = mnl_socket_get_fd(nl);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	r = bind_queue(&o, opt);
	if (r < 0) {
		mnl_socket_close(nl);
		return r;
	}
	/* Without this flag the kernel splits merged packets, and completes their checksums. */
	if (opt->merged)
		config_flag(&o, NFQA_CFG_F_GSO);
	*ret_has_mapping = config_flag(&o, NFQA_CFG_F_CONNTRACK) == 0;
	if (o.early)
		verdict_up_to(nl, num, o.early_id, opt->fail_open ? NF_ACCEPT : NF_DROP, 0);
	*ret = nl;
	return 0;
}

/* Check that attributes are as long as the values that are read from them. Skip unknown ones. */
static int on_attribute(const struct nlattr *attr, void *data)
{
	static const uint16_t least[NFQA_MAX + 1] = {
		[NFQA_PACKET_HDR] = sizeof(struct nfqnl_msg_packet_hdr),
		[NFQA_MARK] = sizeof(uint32_t),
		[NFQA_SKB_INFO] = sizeof(uint32_t),
	};
	const struct nlattr **to = data;
	uint16_t type = mnl_attr_get_type(attr);

	if (type > NFQA_MAX)
		return MNL_CB_OK;
	if (mnl_attr_get_payload_len(attr) < least[type])
		return MNL_CB_ERROR;
	to[type] = attr;
	return MNL_CB_OK;
}

/* The number of a message whose error means nothing: see queue_forget_read(). */
#define SEQ_UNASKED 2

int queue_parse(const struct nlmsghdr *nlh, struct queue_packet *ret)
{
	const struct nlattr *attr[NFQA_MAX + 1] = { NULL };
	const struct nfqnl_msg_packet_hdr *hdr;
	const struct nlmsgerr *e;

	if (nlh->nlmsg_type == NLMSG_ERROR) {
		if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*e))
			return -EBADMSG;
		e = mnl_nlmsg_get_payload(nlh);
		if (nlh->nlmsg_seq == SEQ_UNASKED)
			return 0;
		return e->error > 0 ? -EBADMSG : e->error;
	}
	if (nlh->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
		return 0;
	/* nfq_nlmsg_parse() does not check lengths. */
	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(struct nfgenmsg) ||
	    mnl_attr_parse(nlh, sizeof(struct nfgenmsg), on_attribute, attr) < 0 ||
	    !attr[NFQA_PACKET_HDR])
		return -EBADMSG;
	hdr = mnl_attr_get_payload(attr[NFQA_PACKET_HDR]);
	*ret = (struct queue_packet){
		.id = ntohl(hdr->packet_id),
		.outbound = hdr->hook == NF_INET_POST_ROUTING,
		.cut = attr[NFQA_CAP_LEN] != NULL,
	};
	if (attr[NFQA_SKB_INFO])
		ret->partial = ntohl(mnl_attr_get_u32(attr[NFQA_SKB_INFO])) & NFQA_SKB_CSUMNOTREADY;
	if (attr[NFQA_MARK])
		ret->mark = ntohl(mnl_attr_get_u32(attr[NFQA_MARK]));
	if (attr[NFQA_PAYLOAD]) {
		ret->data = mnl_attr_get_payload(attr[NFQA_PAYLOAD]);
		ret->len = mnl_attr_get_payload_len(attr[NFQA_PAYLOAD]);
	}
	if (attr[NFQA_CT] && ret->len)
		ret->has_mapping = mapping_parse(attr[NFQA_CT],
						 ret->data[0] >> 4 == 6 ? AF_INET6 : AF_INET,
						 &ret->inside, &ret->translated) == 0;
	return 1;
}

int queue_accept(struct mnl_socket *nl, uint16_t num, uint32_t id, bool up_to)
{
	char buf[256];
	struct nlmsghdr *nlh;

	if (up_to)
		return verdict_up_to(nl, num, id, NF_ACCEPT, 0);
	nlh = nfq_nlmsg_put(buf, NFQNL_MSG_VERDICT, num);
	nfq_nlmsg_verdict_put(nlh, (int)id, NF_ACCEPT);
	return mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -errno : 0;
}

unsigned int queue_accept_waiting(struct mnl_socket *nl, uint16_t num, unsigned int max)
{
	char buf[QUEUE_ATTRIBUTES + QUEUE_WHOLE] __attribute__((aligned(8)));
	unsigned int packets = 0;
	uint32_t last_id = 0;

	for (unsigned int i = 0; i < max; i++) {
		ssize_t n = recv(mnl_socket_get_fd(nl), buf, sizeof(buf), MSG_DONTWAIT);
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
		struct queue_packet p;

		if (n < 0 && errno == ENOBUFS)
			continue;
		if (n <= 0)
			break;
		if (!nlmsg_fits(nlh, (int)n) || queue_parse(nlh, &p) != 1)
			continue;
		last_id = p.id;
		packets++;
	}
	if (packets)
		queue_accept(nl, num, last_id, true);
	return packets;
}

void queue_forget_read(struct mnl_socket *nl, uint16_t num)
{
	char buf[QUEUE_ATTRIBUTES + QUEUE_WHOLE] __attribute__((aligned(8)));
	const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
	struct queue_packet p;

	for (;;) {
		ssize_t n = recv(mnl_socket_get_fd(nl), buf, sizeof(buf), MSG_DONTWAIT | MSG_PEEK);

		if (n < 0 && errno == ENOBUFS)
			continue;
		if (n <= 0)
			return;
		if (nlmsg_fits(nlh, (int)n) && queue_parse(nlh, &p) == 1)
			break;
		/* Discard an answer to the previous reader. */
		if (recv(mnl_socket_get_fd(nl), buf, sizeof(buf), MSG_DONTWAIT) <= 0)
			return;
	}
	verdict_up_to(nl, num, p.id - 1, NF_ACCEPT, SEQ_UNASKED);
}

int queue_send_verdict(struct mnl_socket *nl, uint16_t num, const struct queue_verdict *v,
		       char *buf, size_t size)
{
	struct nlmsghdr *nlh;

	if (size < QUEUE_ATTRIBUTES + (v->data ? v->len : 0))
		return -EMSGSIZE;
	nlh = nfq_nlmsg_put(buf, NFQNL_MSG_VERDICT, num);
	nfq_nlmsg_verdict_put(nlh, (int)v->id,
			      v->drop	  ? NF_DROP
			      : v->repeat ? NF_REPEAT
					  : NF_ACCEPT);
	if (v->set_mark)
		nfq_nlmsg_verdict_put_mark(nlh, v->mark);
	if (v->data)
		nfq_nlmsg_verdict_put_pkt(nlh, v->data, v->len);
	return mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -errno : 0;
}
