// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/socket.h>

#include "core/wire.h"
#include "links.h"
#include "base/util.h"

/* Newer than libc's header. */
#define LINK_TYPE_RAWIP 519
#define LINK_TYPE_IP6GRE 823

static void *append(void *array, size_t *n, size_t size)
{
	void **p = array;
	char *bigger = reallocarray(*p, *n + 1, size);

	if (!bigger)
		return NULL;
	*p = bigger;
	memset(bigger + *n * size, 0, size);
	return bigger + (*n)++ * size;
}

static enum link_kind kind_of(unsigned short arphrd)
{
	switch (arphrd) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
		return LINK_ETHERNET;
	case ARPHRD_NONE:
	case ARPHRD_PPP:
	case LINK_TYPE_RAWIP:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
	case ARPHRD_IPGRE:
	case LINK_TYPE_IP6GRE:
		return LINK_RAW;
	default:
		return LINK_UNSUPPORTED;
	}
}

static int on_link(const struct nlmsghdr *nlh, void *data)
{
	struct links *l = data;
	const struct ifinfomsg *m = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *attr;
	struct link *k;

	if (nlh->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(nlh) < sizeof(*m))
		return MNL_CB_OK;
	k = append(&l->link, &l->n_link, sizeof(*k));
	if (!k)
		return MNL_CB_ERROR;
	k->ifindex = (unsigned int)m->ifi_index;
	k->kind = kind_of(m->ifi_type);
	mnl_attr_for_each(attr, nlh, sizeof(*m))
	{
		if (mnl_attr_get_type(attr) == IFLA_IFNAME &&
		    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			strncpy(k->name, mnl_attr_get_str(attr), sizeof(k->name) - 1);
	}
	return MNL_CB_OK;
}

static int on_address(const struct nlmsghdr *nlh, void *data)
{
	struct links *l = data;
	const struct ifaddrmsg *m = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *attr, *found = NULL;
	struct link_address *a;

	if (nlh->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*m))
		return MNL_CB_OK;
	/* On a point-to-point link IFA_ADDRESS is the peer's; IFA_LOCAL is ours. */
	mnl_attr_for_each(attr, nlh, sizeof(*m))
	{
		uint16_t type = mnl_attr_get_type(attr);

		if (type == IFA_LOCAL || (type == IFA_ADDRESS && !found))
			found = attr;
	}
	if (!found || mnl_attr_get_payload_len(found) != (m->ifa_family == AF_INET ? 4 : 16))
		return MNL_CB_OK;
	a = append(&l->address, &l->n_address, sizeof(*a));
	if (!a)
		return MNL_CB_ERROR;
	a->ifindex = m->ifa_index;
	if (m->ifa_family == AF_INET)
		wire_map4(a->addr, mnl_attr_get_payload(found));
	else
		memcpy(a->addr, mnl_attr_get_payload(found), 16);
	return MNL_CB_OK;
}

static void mark_default(struct links *l, uint32_t ifindex)
{
	for (size_t i = 0; i < l->n_link; i++)
		if (l->link[i].ifindex == ifindex)
			l->link[i].default_route = true;
}

static void mark_nexthops(struct links *l, const struct nlattr *multipath)
{
	const struct rtnexthop *nh = mnl_attr_get_payload(multipath);
	int left = mnl_attr_get_payload_len(multipath);

	for (; left >= (int)sizeof(*nh) && nh->rtnh_len >= sizeof(*nh) && nh->rtnh_len <= left;
	     left -= RTNH_ALIGN(nh->rtnh_len), nh = RTNH_NEXT(nh))
		mark_default(l, (uint32_t)nh->rtnh_ifindex);
}

static int on_route(const struct nlmsghdr *nlh, void *data)
{
	struct links *l = data;
	const struct rtmsg *m = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *attr;

	if (nlh->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(nlh) < sizeof(*m) ||
	    m->rtm_dst_len || m->rtm_type != RTN_UNICAST)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, nlh, sizeof(*m))
	{
		if (mnl_attr_get_type(attr) == RTA_OIF && mnl_attr_get_payload_len(attr) == 4)
			mark_default(l, mnl_attr_get_u32(attr));
		else if (mnl_attr_get_type(attr) == RTA_MULTIPATH)
			mark_nexthops(l, attr);
	}
	return MNL_CB_OK;
}

static int dump(struct mnl_socket *nl, uint16_t type, unsigned char family, size_t header,
		mnl_cb_t fn, struct links *l)
{
	char buf[32768];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	static unsigned int seq;
	ssize_t n;
	int r = MNL_CB_OK;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = ++seq;
	/* All headers of these requests begin with the family. */
	*(unsigned char *)mnl_nlmsg_put_extra_header(nlh, header) = family;
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	while (r == MNL_CB_OK) {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		r = n < 0 ? -1 : mnl_cb_run(buf, (size_t)n, seq, mnl_socket_get_portid(nl), fn, l);
	}
	return r < 0 ? -errno : 0;
}

static int dump_all(struct mnl_socket *nl, struct links *l)
{
	int r;

	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	r = dump(nl, RTM_GETLINK, AF_UNSPEC, sizeof(struct ifinfomsg), on_link, l);
	if (r < 0)
		return r;
	r = dump(nl, RTM_GETADDR, AF_UNSPEC, sizeof(struct ifaddrmsg), on_address, l);
	if (r < 0)
		return r;
	r = dump(nl, RTM_GETROUTE, AF_INET, sizeof(struct rtmsg), on_route, l);
	if (r < 0)
		return r;
	return dump(nl, RTM_GETROUTE, AF_INET6, sizeof(struct rtmsg), on_route, l);
}

int links_read(struct links *ret)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct links l = { 0 };
	int r;

	if (!nl)
		return -errno;
	r = dump_all(nl, &l);
	mnl_socket_close(nl);
	if (r < 0) {
		links_free(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void links_free(struct links *l)
{
	free(l->link);
	free(l->address);
	*l = (struct links){ 0 };
}

const struct link *links_by_name(const struct links *l, const char *name)
{
	for (size_t i = 0; i < l->n_link; i++)
		if (!strcmp(l->link[i].name, name))
			return &l->link[i];
	return NULL;
}

int links_watch(void)
{
	_cleanup_close_ int fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	struct sockaddr_nl a = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
			     RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_TC,
	};

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return take_fd(&fd);
}

/* A routing daemon may change routes by the thousand; only default routes matter here. */
static bool is_default_route(const struct nlmsghdr *nlh)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(nlh);

	return mnl_nlmsg_get_payload_len(nlh) >= sizeof(*m) && !m->rtm_dst_len &&
	       m->rtm_type == RTN_UNICAST;
}

static bool is_interesting(const struct nlmsghdr *nlh)
{
	switch (nlh->nlmsg_type) {
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		return is_default_route(nlh);
	case RTM_NEWQDISC:
	case RTM_NEWTCLASS:
	case RTM_DELTCLASS:
	case RTM_NEWTFILTER:
		return false; /* an addition removes nothing of ours */
	default:
		return true;
	}
}

int links_changed(int fd)
{
	char buf[32768];
	bool changed = false;

	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
		int left = (int)n;

		if (n < 0 && errno == ENOBUFS) {
			/* Events were lost: read everything again. */
			changed = true;
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return changed;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		for (; nlmsg_fits(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			changed = changed || is_interesting(nlh);
	}
}
