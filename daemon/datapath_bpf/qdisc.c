// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <time.h>

#include "qdisc.h"

struct hooks_query {
	int ifindex;
	enum qdisc_at_hooks qdisc;
	int filters;
};

static int on_qdisc(const struct nlmsghdr *nlh, void *data)
{
	struct hooks_query *q = data;
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *attr;

	/* TC_H_INGRESS and TC_H_CLSACT are the same handle */
	if (tc->tcm_ifindex != q->ifindex || tc->tcm_parent != TC_H_CLSACT)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, nlh, sizeof(*tc))
	{
		if (mnl_attr_get_type(attr) != TCA_KIND)
			continue;
		q->qdisc = strcmp(mnl_attr_get_str(attr), "clsact") == 0 ? QDISC_CLSACT
									 : QDISC_INGRESS;
	}
	return MNL_CB_OK;
}

static int on_filter(const struct nlmsghdr *nlh, void *data)
{
	struct hooks_query *q = data;
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);

	/* the kernel lists each priority, too, with handle 0 */
	if (nlh->nlmsg_type == RTM_NEWTFILTER && tc->tcm_handle)
		q->filters++;
	return MNL_CB_OK;
}

static int dump(uint16_t type, uint32_t parent, mnl_cb_t fn, struct hooks_query *q)
{
	char buf[16384];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct tcmsg *tc;
	unsigned int seq = (unsigned int)time(NULL), port;
	ssize_t n;
	int r = MNL_CB_OK;

	if (!nl)
		return -errno;
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = seq;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = q->ifindex;
	tc->tcm_parent = parent;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0) {
		r = -errno;
		mnl_socket_close(nl);
		return r;
	}
	port = mnl_socket_get_portid(nl);
	while (r == MNL_CB_OK) {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		r = n < 0 ? -1 : mnl_cb_run(buf, (size_t)n, seq, port, fn, q);
	}
	r = r < 0 ? -errno : 0;
	mnl_socket_close(nl);
	return r;
}

int qdisc_at_hooks(unsigned int ifindex)
{
	struct hooks_query q = { .ifindex = (int)ifindex, .qdisc = QDISC_NONE };
	int r = dump(RTM_GETQDISC, 0, on_qdisc, &q);

	return r < 0 ? r : (int)q.qdisc;
}

int qdisc_count_filters(unsigned int ifindex)
{
	struct hooks_query q = { .ifindex = (int)ifindex };
	int r = dump(RTM_GETTFILTER, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS), on_filter, &q);

	if (r >= 0)
		r = dump(RTM_GETTFILTER, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS), on_filter, &q);
	return r < 0 ? r : q.filters;
}
