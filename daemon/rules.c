/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules.c - our own nft tables: which SYNs are queued to the daemon.
 *
 * What leads from one set of rules to another is one batch, and so one transaction of the kernel's:
 * all of it happens or nothing. No batch but rules_remove()'s deletes a base chain, because the
 * kernel then drops every queued packet of the namespace, whoever queued it.
 */
#include "rules.h"

#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter/xt_NFQUEUE.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <libmnl/libmnl.h>
#include <libnftnl/batch.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/udata.h>

#include "rules_expr.h"
#include "util.h"

#define TABLE "tsnatd"
#define SET   RULES_SET

static const struct chain {
	const char *name;
	uint32_t hook;
	int32_t priority;
	enum rules_queue queue; /* what its first rule that queues does it to */
	bool segments;		/* of the queue datapath alone */
} chains[] = {
	/* After srcnat (100), so that the packet is what the server will see, whoever translated it. */
	{ "postrouting", NF_INET_POST_ROUTING, 110, RULES_SYNS, false },
	/* An accepted SYN goes on in the next base chain, which finds the mark that its verdict set. */
	{ "shifted_out", NF_INET_POST_ROUTING, 111, RULES_SEGMENTS_OUT, true },
	/* After conntrack's lookup (-200), before NAT is undone (-100): the tuple as the server sees it. */
	{ "shifted_in", NF_INET_PRE_ROUTING, -110, RULES_SEGMENTS_IN, true },
};
#define SYN_CHAIN (&chains[0])

/* What is in which chain, in this order. */
static const struct rule {
	enum rules_rule rule;
	const struct chain *chain;
	bool segments;
} rules_of_table[] = {
	{ RULES_SYN, &chains[0], false }, { RULES_END, &chains[0], true }, { RULES_MARK, &chains[1], true },
	{ RULES_OUT, &chains[1], true },  { RULES_IN, &chains[2], true },  { RULES_CHALLENGE, &chains[2], true },
};

/* nft(8)'s own numbers, by which it lists the set as "type ifname". */
#define NFT_TYPE_IFNAME 41
#define NFT_BYTEORDER_HOST 1

#define NAMES_PER_MESSAGE 64
#define PAGE_BYTES 16384
#define LONGEST_MESSAGE 4096 /* 64 names make 2 KiB, the rule 700 bytes */
#define ANSWER_BYTES 32768   /* the longest part of a dump */
#define ANSWER_SECONDS 2     /* the kernel answers before send() returns: this is for surprises */
#define TRIES 3

struct rules {
	struct mnl_socket *nl; /* owned */
	struct rules_config cfg;
	enum rules_kind kind;
	uint32_t seq; /* the last one used */
	char error[160];
	char answer[ANSWER_BYTES] __attribute__((aligned(8)));
};

static const uint16_t families[] = { NFPROTO_IPV4, NFPROTO_IPV6 };

static void free_set(struct nftnl_set **s)
{
	if (*s)
		nftnl_set_free(*s);
}
#define _cleanup_set_ __attribute__((cleanup(free_set)))

static void free_chain(struct nftnl_chain **c)
{
	if (*c)
		nftnl_chain_free(*c);
}
#define _cleanup_chain_ __attribute__((cleanup(free_chain)))

static void free_rule(struct nftnl_rule **rule)
{
	if (*rule)
		nftnl_rule_free(*rule);
}
#define _cleanup_rule_ __attribute__((cleanup(free_rule)))

static void free_udata(struct nftnl_udata_buf **u)
{
	if (*u)
		nftnl_udata_buf_free(*u);
}
#define _cleanup_udata_ __attribute__((cleanup(free_udata)))

/* ---- the socket ---- */

/* Returns bytes in r->answer, or -errno; -ETIMEDOUT when nothing came. */
static ssize_t receive(struct rules *r, int flags)
{
	ssize_t len;

	do
		len = recv(mnl_socket_get_fd(r->nl), r->answer, sizeof(r->answer), flags);
	while (len < 0 && errno == EINTR);

	if (len < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return len;
}

/* What is left of an earlier conversation that was given up. */
static void drain(struct rules *r)
{
	ssize_t len;

	do
		len = receive(r, MSG_DONTWAIT);
	while (len > 0 || len == -ENOBUFS);
}

static int transmit(struct rules *r, struct iovec *iov, size_t n)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct msghdr msg = {
		.msg_name = &kernel,
		.msg_namelen = sizeof(kernel),
		.msg_iov = iov,
		.msg_iovlen = n,
	};
	ssize_t len;

	drain(r);
	do
		len = sendmsg(mnl_socket_get_fd(r->nl), &msg, 0);
	while (len < 0 && errno == EINTR);

	return len < 0 ? -errno : 0;
}

/* ---- batches ---- */

struct batch {
	struct nftnl_batch *pages; /* owned */
	uint32_t begin_seq;	   /* of BATCH_BEGIN; the messages' follow it */
	uint32_t messages;	   /* that ask for an acknowledgement */
	uint32_t answered;
	int error;	     /* the first one, while building or from the kernel */
	uint16_t error_type; /* the message it came for: NFT_MSG_*, NFNL_MSG_BATCH_* */
};

static void batch_free(struct batch *b)
{
	if (b->pages)
		nftnl_batch_free(b->pages);
}
#define _cleanup_batch_ __attribute__((cleanup(batch_free)))

static void batch_fail(struct batch *b, int error, uint16_t type)
{
	if (b->error)
		return;
	b->error = error;
	b->error_type = type;
}

/* The message that was built at the end of the batch is complete. */
static void batch_next(struct batch *b)
{
	if (nftnl_batch_update(b->pages) < 0)
		batch_fail(b, -ENOMEM, 0);
}

static int batch_begin(struct batch *b, struct rules *r)
{
	*b = (struct batch){ .begin_seq = r->seq + 1 };
	b->pages = nftnl_batch_alloc(PAGE_BYTES, LONGEST_MESSAGE);
	if (!b->pages)
		return -ENOMEM;

	nftnl_batch_begin(nftnl_batch_buffer(b->pages), b->begin_seq);
	batch_next(b);
	return 0;
}

/* Room for one message; batch_next() must follow before anything else is done with the batch. */
static struct nlmsghdr *batch_message(struct batch *b, uint16_t type, uint16_t family,
				      uint16_t flags)
{
	return nftnl_nlmsg_build_hdr(nftnl_batch_buffer(b->pages), type, family, flags | NLM_F_ACK,
				     b->begin_seq + ++b->messages);
}

static void batch_answer(struct batch *b, const struct nlmsghdr *nlh)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*e) ||
	    nlh->nlmsg_seq - b->begin_seq > b->messages)
		return;

	if (e->error)
		batch_fail(b, e->error, e->msg.nlmsg_type);
	/* refused as a whole: messages may have no answer of their own */
	b->answered = nlh->nlmsg_seq == b->begin_seq ? b->messages : b->answered + 1;
}

static void batch_answers(struct batch *b, const void *answer, int len)
{
	const struct nlmsghdr *nlh = answer;

	for (; nlmsg_fits(nlh, len); nlh = mnl_nlmsg_next(nlh, &len))
		batch_answer(b, nlh);
}

static void batch_receive(struct rules *r, struct batch *b)
{
	bool overrun = false;

	while (b->answered < b->messages) {
		ssize_t len = receive(r, overrun ? MSG_DONTWAIT : 0);

		if (len == -ENOBUFS) {
			overrun = true; /* answers were lost; do not wait for them */
			continue;
		}
		if (len < 0) {
			batch_fail(b, overrun ? -ENOBUFS : (int)len, 0);
			return;
		}
		batch_answers(b, r->answer, (int)len);
	}
}

static void batch_exchange(struct rules *r, struct batch *b)
{
	size_t n = (size_t)nftnl_batch_iovec_len(b->pages);
	_cleanup_free_ struct iovec *iov = calloc(n, sizeof(*iov));
	int err;

	b->answered = 0;
	b->error = 0;
	if (!iov)
		return batch_fail(b, -ENOMEM, 0);
	nftnl_batch_iovec(b->pages, iov, (uint32_t)n);
	err = transmit(r, iov, n);
	if (err < 0)
		return batch_fail(b, err, 0);
	batch_receive(r, b);
}

/* Send it and read the answer to each of its messages. Returns 0 or -errno, as b->error has it. */
static int batch_commit(struct rules *r, struct batch *b)
{
	if (b->error)
		return b->error;

	r->seq = b->begin_seq + b->messages + 1;
	nftnl_batch_end(nftnl_batch_buffer(b->pages), r->seq);
	batch_next(b);
	if (b->error)
		return b->error;

	/* EINTR: a signal came while the kernel waited for a module; nothing was changed */
	for (int i = 0; i < TRIES && (i == 0 || b->error == -EINTR); i++)
		batch_exchange(r, b);
	return b->error;
}

/* ---- the parts of a table ---- */

/* In each of these kinds of message the table's name is attribute 1. */
#define ATTR_TABLE 1
static_assert(NFTA_TABLE_NAME == ATTR_TABLE && NFTA_CHAIN_TABLE == ATTR_TABLE &&
	      NFTA_SET_TABLE == ATTR_TABLE && NFTA_RULE_TABLE == ATTR_TABLE &&
	      NFTA_SET_ELEM_LIST_TABLE == ATTR_TABLE, "the table's name is attribute 1");

static void put_table(struct batch *b, uint16_t family)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_NEWTABLE, family, NLM_F_CREATE);

	mnl_attr_put_strz(nlh, ATTR_TABLE, TABLE);
	mnl_attr_put_u32(nlh, NFTA_TABLE_FLAGS, 0); /* wakes up a dormant one */
	batch_next(b);
}

static void put_delete_table(struct batch *b, uint16_t family)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_DELTABLE, family, 0);

	mnl_attr_put_strz(nlh, ATTR_TABLE, TABLE);
	batch_next(b);
}

static void put_flush_chain(struct batch *b, uint16_t family, const struct chain *c)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_DELRULE, family, 0);

	mnl_attr_put_strz(nlh, ATTR_TABLE, TABLE);
	mnl_attr_put_strz(nlh, NFTA_RULE_CHAIN, c->name);
	batch_next(b);
}

static void put_flush_rules(struct batch *b, uint16_t family)
{
	put_flush_chain(b, family, SYN_CHAIN);
}

static void put_flush_out(struct batch *b, uint16_t family)
{
	put_flush_chain(b, family, &chains[1]);
}

static void put_flush_in(struct batch *b, uint16_t family)
{
	put_flush_chain(b, family, &chains[2]);
}

static void put_flush_names(struct batch *b, uint16_t family)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_DELSETELEM, family, 0);

	mnl_attr_put_strz(nlh, ATTR_TABLE, TABLE);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, SET);
	batch_next(b);
}

static struct nftnl_set *set_new(uint16_t family)
{
	_cleanup_set_ struct nftnl_set *s = nftnl_set_alloc();
	struct nftnl_set *ret = s;

	if (!s || nftnl_set_set_str(s, NFTNL_SET_TABLE, TABLE) < 0 ||
	    nftnl_set_set_str(s, NFTNL_SET_NAME, SET) < 0)
		return NULL;
	nftnl_set_set_u32(s, NFTNL_SET_FAMILY, family);
	s = NULL;
	return ret;
}

/* For nft(8): without it, 1.0.6 lists every name as "". */
static bool set_tell_byteorder(struct nftnl_set *s)
{
	_cleanup_udata_ struct nftnl_udata_buf *u = nftnl_udata_buf_alloc(64);

	return u && nftnl_udata_put_u32(u, NFTNL_UDATA_SET_KEYBYTEORDER, NFT_BYTEORDER_HOST) &&
	       nftnl_set_set_data(s, NFTNL_SET_USERDATA, nftnl_udata_buf_data(u),
				  nftnl_udata_buf_len(u)) == 0;
}

static void put_set(struct batch *b, uint16_t family)
{
	_cleanup_set_ struct nftnl_set *s = set_new(family);

	if (!s || !set_tell_byteorder(s))
		return batch_fail(b, -ENOMEM, 0);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, NFT_TYPE_IFNAME);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, IFNAMSIZ);
	nftnl_set_set_u32(s, NFTNL_SET_ID, family); /* any number, unique in the batch */

	nftnl_set_nlmsg_build_payload(batch_message(b, NFT_MSG_NEWSET, family, NLM_F_CREATE), s);
	batch_next(b);
}

static bool set_add_name(struct nftnl_set *s, const char *name)
{
	struct nftnl_set_elem *e = nftnl_set_elem_alloc();
	char key[IFNAMSIZ] = "";

	if (!e)
		return false;
	nftnl_set_elem_add(s, e); /* s owns it now */
	memcpy(key, name, strnlen(name, IFNAMSIZ - 1));
	return nftnl_set_elem_set(e, NFTNL_SET_ELEM_KEY, key, sizeof(key)) == 0;
}

static void put_some_names(struct batch *b, uint16_t family, const char *const *names, size_t n)
{
	_cleanup_set_ struct nftnl_set *s = set_new(family);
	struct nlmsghdr *nlh;

	if (!s)
		return batch_fail(b, -ENOMEM, 0);
	for (size_t i = 0; i < n; i++)
		if (!set_add_name(s, names[i]))
			return batch_fail(b, -ENOMEM, 0);

	nlh = batch_message(b, NFT_MSG_NEWSETELEM, family, NLM_F_CREATE);
	nftnl_set_elems_nlmsg_build_payload(nlh, s);
	batch_next(b);
}

static void put_names(struct batch *b, uint16_t family, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i += NAMES_PER_MESSAGE) {
		size_t left = n - i;

		put_some_names(b, family, names + i,
			       left < NAMES_PER_MESSAGE ? left : NAMES_PER_MESSAGE);
	}
}

static void put_chain(struct batch *b, uint16_t family, const struct chain *chain)
{
	_cleanup_chain_ struct nftnl_chain *c = nftnl_chain_alloc();
	struct nlmsghdr *nlh;

	if (!c || nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, TABLE) < 0 ||
	    nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, chain->name) < 0 ||
	    nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, "filter") < 0)
		return batch_fail(b, -ENOMEM, 0);
	nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, chain->hook);
	nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, chain->priority);
	nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);

	nlh = batch_message(b, NFT_MSG_NEWCHAIN, family, NLM_F_CREATE);
	nftnl_chain_nlmsg_build_payload(nlh, c);
	batch_next(b);
}

static void put_rule(struct batch *b, uint16_t family, const struct rules_config *cfg, enum rules_kind kind,
		     const struct rule *r)
{
	_cleanup_rule_ struct nftnl_rule *rule = nftnl_rule_alloc();
	struct nlmsghdr *nlh;

	if (!rule || nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, TABLE) < 0 ||
	    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, r->chain->name) < 0 || !rules_add_rule(rule, r->rule, cfg, kind))
		return batch_fail(b, -ENOMEM, 0);

	nlh = batch_message(b, NFT_MSG_NEWRULE, family, NLM_F_CREATE | NLM_F_APPEND);
	nftnl_rule_nlmsg_build_payload(nlh, rule);
	batch_next(b);
}

/* ---- what went wrong, for the administrator ---- */

static const char *object_of(uint16_t type)
{
	switch (type & 0xff) {
	case NFT_MSG_NEWTABLE:
	case NFT_MSG_DELTABLE:
		return "table " TABLE;
	case NFT_MSG_NEWCHAIN:
		return "chain postrouting";
	case NFT_MSG_NEWRULE:
	case NFT_MSG_DELRULE:
		return "the rule";
	default:
		return "set " SET;
	}
}

static bool is_unsupported(int err)
{
	return err == -ENOENT || err == -EOPNOTSUPP;
}

/* A message of ours was refused. */
static const char *explain_message(struct rules *r, int err, uint16_t type)
{
	if (err == -EPERM)
		return "table " TABLE " belongs to another program (flag owner)";
	if (is_unsupported(err) && (type & 0xff) == NFT_MSG_NEWRULE)
		return "this kernel has neither nft_queue nor nft_compat with xt_NFQUEUE, "
		       "or lacks nft_ct";
	if (err == -EEXIST || err == -EINVAL || err == -EOPNOTSUPP)
		snprintf(r->error, sizeof(r->error),
			 "table " TABLE " is there, but not as we make it (%s); delete it first",
			 object_of(type));
	else
		snprintf(r->error, sizeof(r->error), "nf_tables refuses %s: %s", object_of(type),
			 strerror(-err));
	return r->error;
}

static const char *explain(struct rules *r, int err, uint16_t type)
{
	if (type >> 8 == NFNL_SUBSYS_NFTABLES)
		return explain_message(r, err, type);
	switch (-err) {
	case EPERM:
		return "no permission to change nf_tables (CAP_NET_ADMIN)";
	case EOPNOTSUPP:
		return "nf_tables is not available in this kernel";
	case ENOBUFS:
	case ETIMEDOUT:
		return "the kernel's answer got lost";
	default:
		snprintf(r->error, sizeof(r->error), "nf_tables: %s", strerror(-err));
		return r->error;
	}
}

/* ---- public: changes ---- */

static bool names_valid(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (names[i][0] == '\0' || strnlen(names[i], IFNAMSIZ) >= IFNAMSIZ)
			return false;
	return true;
}

static void put_all(struct batch *b, uint16_t family, const struct rules_config *cfg,
		    enum rules_kind kind, const char *const *names, size_t n)
{
	put_table(b, family);
	put_set(b, family);
	for (size_t i = 0; i < ARRAY_SIZE(chains); i++) {
		if (chains[i].segments && !cfg->segments)
			continue;
		put_chain(b, family, &chains[i]);
		put_flush_chain(b, family, &chains[i]);
	}
	put_flush_names(b, family);
	put_names(b, family, names, n);
	for (size_t i = 0; i < ARRAY_SIZE(rules_of_table); i++)
		if (!rules_of_table[i].segments || cfg->segments)
			put_rule(b, family, cfg, kind, &rules_of_table[i]);
}

static int install_as(struct rules *r, enum rules_kind kind, const char *const *names, size_t n,
		      uint16_t *ret_error_type)
{
	_cleanup_batch_ struct batch b = { 0 };
	int err = batch_begin(&b, r);

	if (err < 0)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		put_all(&b, families[i], &r->cfg, kind, names, n);
	err = batch_commit(r, &b);
	*ret_error_type = b.error_type;
	return err;
}

/*
 * How the kernel can queue is found by trying, never by its version: distributions' kernels have
 * the first, others maybe only the second.
 */
static int install(struct rules *r, const char *const *names, size_t n, uint16_t *ret_error_type)
{
	static const enum rules_kind kinds[] = { RULES_QUEUE, RULES_NFQUEUE };
	int err = -EOPNOTSUPP;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		err = install_as(r, kinds[i], names, n, ret_error_type);
		if (err == 0)
			r->kind = kinds[i];
		if (!is_unsupported(err) || (*ret_error_type & 0xff) != NFT_MSG_NEWRULE)
			break;
	}
	return err;
}

/*
 * One message of PUT's for each family. What is not there is gone already, and must not keep the
 * other family's from going: a batch each.
 */
static int take_away(struct rules *r, void (*put)(struct batch *b, uint16_t family))
{
	int ret = 0;

	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		_cleanup_batch_ struct batch b = { 0 };
		int err = batch_begin(&b, r);

		if (err == 0) {
			put(&b, families[i]);
			err = batch_commit(r, &b);
		}
		if (err < 0 && err != -ENOENT)
			ret = err;
	}
	if (ret == 0)
		r->kind = RULES_NONE;
	return ret;
}

/* Rules of a run with the queue datapath would drop what no queue takes any more. */
static void flush_segments(struct rules *r)
{
	take_away(r, put_flush_out);
	take_away(r, put_flush_in);
}

int rules_install(struct rules *r, const char *const *ifaces, size_t n, const char **ret_error)
{
	const char *text = "an interface name is empty or longer than 15 characters";
	uint16_t type = 0;
	int err = -EINVAL;

	if (names_valid(ifaces, n)) {
		if (!r->cfg.segments)
			flush_segments(r);
		err = install(r, ifaces, n, &type);
		text = err < 0 ? explain(r, err, type) : NULL;
	}
	if (err < 0 && ret_error)
		*ret_error = text;
	return err;
}

int rules_set_interfaces(struct rules *r, const char *const *ifaces, size_t n)
{
	_cleanup_batch_ struct batch b = { 0 };
	int err;

	if (!names_valid(ifaces, n))
		return -EINVAL;
	err = batch_begin(&b, r);
	if (err < 0)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		put_flush_names(&b, families[i]);
		put_names(&b, families[i], ifaces, n);
	}
	return batch_commit(r, &b);
}

int rules_pause(struct rules *r)
{
	return take_away(r, put_flush_rules);
}

int rules_remove(struct rules *r)
{
	return take_away(r, put_delete_table);
}

/* ---- public: a look ---- */

struct look {
	const struct rules_config *cfg;
	const struct chain *chain;
	bool found;
	unsigned int rules;
};

/* A dormant table has all its parts, and none does anything. */
static int look_at_table(const struct nlmsghdr *nlh, void *data)
{
	struct look *look = data;
	const struct nlattr *a;

	look->found = true;
	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
		if (mnl_attr_get_type(a) == NFTA_TABLE_FLAGS &&
		    mnl_attr_validate(a, MNL_TYPE_U32) == 0 &&
		    ntohl(mnl_attr_get_u32(a)) & NFT_TABLE_F_DORMANT)
			look->found = false;
	return MNL_CB_OK;
}

static int look_at_set(const struct nlmsghdr *nlh, void *data)
{
	_cleanup_set_ struct nftnl_set *s = nftnl_set_alloc();
	struct look *look = data;

	if (s && nftnl_set_nlmsg_parse(nlh, s) == 0 &&
	    nftnl_set_get_u32(s, NFTNL_SET_KEY_LEN) == IFNAMSIZ)
		look->found = true;
	return MNL_CB_OK;
}

static int look_at_chain(const struct nlmsghdr *nlh, void *data)
{
	_cleanup_chain_ struct nftnl_chain *c = nftnl_chain_alloc();
	struct look *look = data;

	if (c && nftnl_chain_nlmsg_parse(nlh, c) == 0 &&
	    nftnl_chain_is_set(c, NFTNL_CHAIN_HOOKNUM) &&
	    nftnl_chain_get_u32(c, NFTNL_CHAIN_HOOKNUM) == look->chain->hook &&
	    nftnl_chain_get_s32(c, NFTNL_CHAIN_PRIO) == look->chain->priority)
		look->found = true;
	return MNL_CB_OK;
}

static bool is_our_target(const struct nftnl_expr *e, const struct look *look)
{
	const char *name = nftnl_expr_get_str(e, NFTNL_EXPR_TG_NAME);
	struct xt_NFQ_info_v3 info;
	uint32_t len = 0;
	const void *data = nftnl_expr_get(e, NFTNL_EXPR_TG_INFO, &len);

	if (!name || strcmp(name, "NFQUEUE") != 0 || !data || len < sizeof(info))
		return false;
	memcpy(&info, data, sizeof(info));
	return info.queuenum == rules_first_queue(look->cfg, look->chain->queue) &&
	       info.queues_total == look->cfg->queues;
}

static int look_at_expr(struct nftnl_expr *e, void *data)
{
	const char *name = nftnl_expr_get_str(e, NFTNL_EXPR_NAME);
	struct look *look = data;

	if (strcmp(name, "target") == 0 && is_our_target(e, look))
		look->found = true;
	if (strcmp(name, "queue") == 0 &&
	    nftnl_expr_get_u16(e, NFTNL_EXPR_QUEUE_NUM) == rules_first_queue(look->cfg, look->chain->queue) &&
	    nftnl_expr_get_u16(e, NFTNL_EXPR_QUEUE_TOTAL) == look->cfg->queues)
		look->found = true;
	return 0;
}

static int look_at_rule(const struct nlmsghdr *nlh, void *data)
{
	_cleanup_rule_ struct nftnl_rule *rule = nftnl_rule_alloc();
	struct look *look = data;

	if (rule && nftnl_rule_nlmsg_parse(nlh, rule) == 0)
		nftnl_expr_foreach(rule, look_at_expr, data);
	look->rules++;
	return MNL_CB_OK;
}

/* What must be there in each family, and how to ask for it. */
static const struct part {
	uint16_t type;
	uint16_t flags;
	uint16_t attr; /* of the name */
	const char *name; /* NULL: the chain's */
	mnl_cb_t look;
} table_part = { NFT_MSG_GETTABLE, NLM_F_ACK, NFTA_TABLE_NAME, TABLE, look_at_table },
  set_part = { NFT_MSG_GETSET, NLM_F_ACK, NFTA_SET_NAME, SET, look_at_set },
  chain_part = { NFT_MSG_GETCHAIN, NLM_F_ACK, NFTA_CHAIN_NAME, NULL, look_at_chain },
  rules_part = { NFT_MSG_GETRULE, NLM_F_DUMP, NFTA_RULE_CHAIN, NULL, look_at_rule };

static int ask_once(struct rules *r, const struct part *p, uint16_t family, struct look *look)
{
	char buf[256] __attribute__((aligned(8))) = { 0 };
	struct nlmsghdr *nlh = nftnl_nlmsg_build_hdr(buf, p->type, family, p->flags, ++r->seq);
	struct iovec iov = { .iov_base = buf };
	ssize_t len;
	int more;

	if (p->attr != ATTR_TABLE)
		mnl_attr_put_strz(nlh, ATTR_TABLE, TABLE);
	mnl_attr_put_strz(nlh, p->attr, p->name ? p->name : look->chain->name);
	iov.iov_len = nlh->nlmsg_len;

	len = transmit(r, &iov, 1);
	do {
		len = len < 0 ? len : receive(r, 0);
		if (len < 0)
			return (int)len;
		more = mnl_cb_run(r->answer, (size_t)len, r->seq, 0, p->look, look);
	} while (more > 0);
	return more < 0 ? -errno : 0;
}

/* 1, 0 or -errno. CHAIN and RET_RULES may be NULL. */
static int part_present(struct rules *r, const struct part *p, uint16_t family, const struct chain *chain,
			unsigned int *ret_rules)
{
	struct look look;
	int err = -EINTR;

	/* EINTR: somebody changed the rules while we read them */
	for (int i = 0; i < TRIES && err == -EINTR; i++) {
		look = (struct look){ .cfg = &r->cfg, .chain = chain };
		err = ask_once(r, p, family, &look);
	}
	if (err < 0)
		return err == -ENOENT ? 0 : err;
	if (ret_rules)
		*ret_rules = look.rules;
	return look.found;
}

static int chain_present(struct rules *r, uint16_t family, const struct chain *chain)
{
	unsigned int wanted = 0, rules = 0;
	int present = part_present(r, &chain_part, family, chain, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(rules_of_table); i++)
		if (rules_of_table[i].chain == chain && (!rules_of_table[i].segments || r->cfg.segments))
			wanted++;
	if (present == 1)
		present = part_present(r, &rules_part, family, chain, &rules);
	return present == 1 ? rules >= wanted : present;
}

static int family_present(struct rules *r, uint16_t family)
{
	int present = part_present(r, &table_part, family, NULL, NULL);

	if (present == 1)
		present = part_present(r, &set_part, family, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(chains) && present == 1; i++)
		if (!chains[i].segments || r->cfg.segments)
			present = chain_present(r, family, &chains[i]);
	return present;
}

int rules_present(struct rules *r)
{
	int present = 1;

	for (size_t f = 0; f < ARRAY_SIZE(families) && present == 1; f++)
		present = family_present(r, families[f]);
	return present;
}

enum rules_kind rules_get_kind(const struct rules *r)
{
	return r->kind;
}

/* ---- public: text ---- */

static const char *const family_names[] = { "ip", "ip6" };
static_assert(ARRAY_SIZE(family_names) == ARRAY_SIZE(families), "a name for each family");

static void print_table(FILE *f, const char *family, const struct rules_config *cfg)
{
	fprintf(f, "table %s " TABLE " {\n\tset " SET " {\n\t\ttype ifname\n\t}\n", family);
	for (size_t i = 0; i < ARRAY_SIZE(chains); i++)
		if (!chains[i].segments || cfg->segments)
			fprintf(f, "\n\tchain %s {\n\t\ttype filter hook %s priority %d; policy accept;\n\t}\n",
				chains[i].name, chains[i].hook == NF_INET_PRE_ROUTING ? "prerouting" : "postrouting",
				chains[i].priority);
	fputs("}\n\n", f);
}

static void print_flush(FILE *f, const char *family, const struct rules_config *cfg)
{
	for (size_t i = 0; i < ARRAY_SIZE(chains); i++)
		if (!chains[i].segments || cfg->segments)
			fprintf(f, "flush chain %s " TABLE " %s\n", family, chains[i].name);
	fprintf(f, "flush set %s " TABLE " " SET "\n\n", family);
}

static void print_names(FILE *f, const char *family, const char *const *names, size_t n)
{
	if (n == 0)
		return;
	fprintf(f, "add element %s " TABLE " " SET " {", family);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s \"%s\"", i > 0 ? "," : "", names[i]);
	fputs(" }\n", f);
}

static void print_rules(FILE *f, const char *family, const struct rules_config *cfg)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules_of_table); i++) {
		const struct rule *r = &rules_of_table[i];

		if (r->segments && !cfg->segments)
			continue;
		fprintf(f, "add rule %s " TABLE " %s ", family, r->chain->name);
		rules_print_rule(f, r->rule, cfg);
	}
}

void rules_print(FILE *f, const struct rules_config *cfg, const char *const *ifaces, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(family_names); i++)
		print_table(f, family_names[i], cfg);
	for (size_t i = 0; i < ARRAY_SIZE(family_names); i++)
		print_flush(f, family_names[i], cfg);
	for (size_t i = 0; i < ARRAY_SIZE(family_names); i++) {
		print_names(f, family_names[i], ifaces, n);
		print_rules(f, family_names[i], cfg);
	}
}

/* ---- public: beginning and end ---- */

static int open_socket(struct mnl_socket *nl)
{
	struct timeval timeout = { .tv_sec = ANSWER_SECONDS };
	int fd = mnl_socket_get_fd(nl);

	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
		return -errno;
	return 0;
}

int rules_new(struct rules **ret, const struct rules_config *cfg)
{
	struct rules *r;
	int err;

	if (cfg->queues == 0 || cfg->queue_num + (cfg->segments ? 3 : 1) * cfg->queues - 1 > UINT16_MAX ||
	    (cfg->segments && !cfg->mark_mask))
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->cfg = *cfg;
	r->nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	err = r->nl ? open_socket(r->nl) : -errno;
	if (err < 0) {
		rules_free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void rules_free(struct rules *r)
{
	if (r && r->nl)
		mnl_socket_close(r->nl);
	free(r);
}
