// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack_tcp.h>
#include <libnfnetlink/libnfnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "conntrack.h"
#include "mapping.h"
#include "base/util.h"

/* Bytes: room for some 10 000 events while the main loop does something else. */
#define EVENTS_RCVBUF (4 << 20)
#define EVENTS_AT_ONCE 1024

struct conntrack {
	struct nfct_handle *ask, *events;
	conntrack_new_fn *fn;
	void *user;

	/* the answer to the question under way */
	struct inside *answer;
	bool answered;
};

static const uint8_t v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static bool is_v4(const struct tuple *t)
{
	return memcmp(t->dst, v4_prefix, sizeof(v4_prefix)) == 0;
}

static int on_answer(enum nf_conntrack_msg_type type, struct nf_conntrack *ct, void *user)
{
	struct conntrack *c = user;

	(void)type;
	c->answered = true;
	if (c->answer)
		mapping_inside(ct, c->answer);
	return NFCT_CB_CONTINUE;
}

int conntrack_new(struct conntrack **ret)
{
	struct conntrack *c = calloc(1, sizeof(*c));
	const struct timeval patience = { .tv_sec = 1 };

	if (!c)
		return -ENOMEM;
	c->ask = nfct_open(CONNTRACK, 0);
	if (!c->ask) {
		free(c);
		return -errno;
	}
	fcntl_cloexec(nfct_fd(c->ask));
	setsockopt(nfct_fd(c->ask), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	nfct_callback_register(c->ask, NFCT_T_ALL, on_answer, c);
	*ret = c;
	return 0;
}

void conntrack_free(struct conntrack *c)
{
	if (!c)
		return;
	if (c->ask)
		nfct_close(c->ask);
	if (c->events)
		nfct_close(c->events);
	free(c);
}

static int on_event(enum nf_conntrack_msg_type type, struct nf_conntrack *ct, void *user)
{
	struct conntrack *c = user;
	struct inside inside;
	struct tuple t;

	if (type != NFCT_T_NEW || !(nfct_get_attr_u32(ct, ATTR_STATUS) & IPS_SRC_NAT) ||
	    mapping_inside(ct, &inside) < 0 || mapping_tuple(ct, &t) < 0)
		return NFCT_CB_CONTINUE;
	c->fn(c->user, &t, &inside);
	return NFCT_CB_CONTINUE;
}

/* Let the kernel drop events that are not TCP before they cost us a wake-up. */
static void filter_tcp(struct nfct_handle *h)
{
	struct nfct_filter *f = nfct_filter_create();

	if (!f)
		return;
	nfct_filter_add_attr_u32(f, NFCT_FILTER_L4PROTO, IPPROTO_TCP);
	nfct_filter_attach(nfct_fd(h), f);
	nfct_filter_destroy(f);
}

int conntrack_subscribe(struct conntrack *c, conntrack_new_fn *fn, void *user)
{
	const int size = EVENTS_RCVBUF;
	int fd;

	c->events = nfct_open(CONNTRACK, NF_NETLINK_CONNTRACK_NEW);
	if (!c->events)
		return -errno;
	fd = nfct_fd(c->events);
	fcntl_cloexec(fd);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	filter_tcp(c->events);
	c->fn = fn;
	c->user = user;
	nfct_callback_register(c->events, NFCT_T_NEW, on_event, c);
	return fd;
}

int conntrack_process(struct conntrack *c)
{
	char buf[16384];

	for (int i = 0; i < EVENTS_AT_ONCE; i++) {
		ssize_t n = recv(nfct_fd(c->events), buf, sizeof(buf), MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		nfnl_process((struct nfnl_handle *)nfct_nfnlh(c->events),
			     (const unsigned char *)buf, (size_t)n);
	}
	return 0;
}

/*
 * Ask for the connection that has T as its original or its reply direction: the kernel compares
 * both. T is given as the original direction, because the library requires that one's family.
 */
static int ask(struct conntrack *c, const struct tuple *t, struct inside *ret_inside)
{
	struct nf_conntrack *ct = nfct_new();
	int r;

	if (!ct)
		return -ENOMEM;
	if (is_v4(t)) {
		nfct_set_attr_u8(ct, ATTR_ORIG_L3PROTO, AF_INET);
		nfct_set_attr(ct, ATTR_ORIG_IPV4_SRC, t->src + 12);
		nfct_set_attr(ct, ATTR_ORIG_IPV4_DST, t->dst + 12);
	} else {
		nfct_set_attr_u8(ct, ATTR_ORIG_L3PROTO, AF_INET6);
		nfct_set_attr(ct, ATTR_ORIG_IPV6_SRC, t->src);
		nfct_set_attr(ct, ATTR_ORIG_IPV6_DST, t->dst);
	}
	nfct_set_attr_u8(ct, ATTR_ORIG_L4PROTO, IPPROTO_TCP);
	nfct_set_attr_u16(ct, ATTR_ORIG_PORT_SRC, t->sport_be);
	nfct_set_attr_u16(ct, ATTR_ORIG_PORT_DST, t->dport_be);
	c->answer = ret_inside;
	c->answered = false;
	r = nfct_query(c->ask, NFCT_Q_GET, ct) < 0 ? -errno : 0;
	nfct_destroy(ct);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : c->answered;
}

int conntrack_lookup(struct conntrack *c, const struct tuple *t, struct inside *ret_inside)
{
	struct tuple reply;

	/* A reply comes from the destination: the reply direction is T reversed. */
	tuple_reverse(&reply, t);
	return ask(c, &reply, ret_inside);
}

int conntrack_knows(struct conntrack *c, const struct tuple *t)
{
	int r = conntrack_lookup(c, t, NULL);

	return r == 0 ? ask(c, t, NULL) : r;
}
