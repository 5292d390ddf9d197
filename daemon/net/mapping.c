// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack_tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "mapping.h"

static int address(const struct nf_conntrack *ct, enum nf_conntrack_attr v4,
		   enum nf_conntrack_attr v6, uint8_t to[16])
{
	switch (nfct_get_attr_u8(ct, ATTR_L3PROTO)) {
	case AF_INET:
		if (!nfct_attr_is_set(ct, v4))
			return -EAFNOSUPPORT;
		wire_map4(to, nfct_get_attr(ct, v4));
		return 0;
	case AF_INET6:
		if (!nfct_attr_is_set(ct, v6))
			return -EAFNOSUPPORT;
		memcpy(to, nfct_get_attr(ct, v6), 16);
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

int mapping_inside(const struct nf_conntrack *ct, struct inside *ret)
{
	struct inside in = { 0 };

	if (nfct_get_attr_u8(ct, ATTR_ORIG_L4PROTO) != IPPROTO_TCP ||
	    address(ct, ATTR_ORIG_IPV4_SRC, ATTR_ORIG_IPV6_SRC, in.src) < 0 ||
	    address(ct, ATTR_ORIG_IPV4_DST, ATTR_ORIG_IPV6_DST, in.dst) < 0)
		return -EAFNOSUPPORT;
	in.sport_be = nfct_get_attr_u16(ct, ATTR_ORIG_PORT_SRC);
	in.dport_be = nfct_get_attr_u16(ct, ATTR_ORIG_PORT_DST);
	*ret = in;
	return 0;
}

int mapping_tuple(const struct nf_conntrack *ct, struct tuple *ret)
{
	struct tuple t = { 0 };

	if (address(ct, ATTR_REPL_IPV4_DST, ATTR_REPL_IPV6_DST, t.src) < 0 ||
	    address(ct, ATTR_REPL_IPV4_SRC, ATTR_REPL_IPV6_SRC, t.dst) < 0)
		return -EAFNOSUPPORT;
	t.sport_be = nfct_get_attr_u16(ct, ATTR_REPL_PORT_DST);
	t.dport_be = nfct_get_attr_u16(ct, ATTR_REPL_PORT_SRC);
	*ret = t;
	return 0;
}

static void free_entry(struct nf_conntrack **ct)
{
	if (*ct)
		nfct_destroy(*ct);
}

int mapping_parse(const struct nlattr *attr, int family, struct inside *ret, bool *ret_translated)
{
	__attribute__((cleanup(free_entry))) struct nf_conntrack *ct = nfct_new();
	int r;

	if (!ct)
		return -ENOMEM;
	if (nfct_payload_parse(mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr),
			       (uint16_t)family, ct) < 0)
		return -EBADMSG;
	r = mapping_inside(ct, ret);
	if (r < 0)
		return r;
	*ret_translated = nfct_get_attr_u32(ct, ATTR_STATUS) & IPS_SRC_NAT;
	return 0;
}
