// SPDX-License-Identifier: GPL-2.0-or-later
#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <string.h>

#include <libnftnl/udata.h>

#include "rules_parts.h"
#include "base/util.h"

/* Numbers of nft(8): with them it lists the set as "type ifname". */
#define NFT_TYPE_IFNAME 41
#define NFT_BYTEORDER_HOST 1

#define NAMES_PER_MESSAGE 64

static void free_udata(struct nftnl_udata_buf **u)
{
	if (*u)
		nftnl_udata_buf_free(*u);
}
#define _cleanup_udata_ __attribute__((cleanup(free_udata)))

void rules_put_table(struct nft_batch *b, uint16_t family)
{
	struct nlmsghdr *nlh = nft_batch_message(b, NFT_MSG_NEWTABLE, family, NLM_F_CREATE);

	mnl_attr_put_strz(nlh, RULES_ATTR_TABLE, RULES_TABLE);
	mnl_attr_put_u32(nlh, NFTA_TABLE_FLAGS, 0); /* makes a dormant table active */
	nft_batch_next(b);
}

void rules_put_delete_table(struct nft_batch *b, uint16_t family)
{
	struct nlmsghdr *nlh = nft_batch_message(b, NFT_MSG_DELTABLE, family, 0);

	mnl_attr_put_strz(nlh, RULES_ATTR_TABLE, RULES_TABLE);
	nft_batch_next(b);
}

void rules_put_flush_chain(struct nft_batch *b, uint16_t family, const struct rules_chain *c)
{
	struct nlmsghdr *nlh = nft_batch_message(b, NFT_MSG_DELRULE, family, 0);

	mnl_attr_put_strz(nlh, RULES_ATTR_TABLE, RULES_TABLE);
	mnl_attr_put_strz(nlh, NFTA_RULE_CHAIN, c->name);
	nft_batch_next(b);
}

void rules_put_flush_names(struct nft_batch *b, uint16_t family)
{
	struct nlmsghdr *nlh = nft_batch_message(b, NFT_MSG_DELSETELEM, family, 0);

	mnl_attr_put_strz(nlh, RULES_ATTR_TABLE, RULES_TABLE);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, RULES_SET);
	nft_batch_next(b);
}

static struct nftnl_set *set_new(uint16_t family)
{
	_cleanup_set_ struct nftnl_set *s = nftnl_set_alloc();
	struct nftnl_set *ret = s;

	if (!s || nftnl_set_set_str(s, NFTNL_SET_TABLE, RULES_TABLE) < 0 ||
	    nftnl_set_set_str(s, NFTNL_SET_NAME, RULES_SET) < 0)
		return NULL;
	nftnl_set_set_u32(s, NFTNL_SET_FAMILY, family);
	s = NULL;
	return ret;
}

/* Without the byte order nft(8) 1.0.6 lists every name as "". */
static bool set_tell_byteorder(struct nftnl_set *s)
{
	_cleanup_udata_ struct nftnl_udata_buf *u = nftnl_udata_buf_alloc(64);

	return u && nftnl_udata_put_u32(u, NFTNL_UDATA_SET_KEYBYTEORDER, NFT_BYTEORDER_HOST) &&
	       nftnl_set_set_data(s, NFTNL_SET_USERDATA, nftnl_udata_buf_data(u),
				  nftnl_udata_buf_len(u)) == 0;
}

void rules_put_set(struct nft_batch *b, uint16_t family)
{
	_cleanup_set_ struct nftnl_set *s = set_new(family);

	if (!s || !set_tell_byteorder(s))
		return nft_batch_fail(b, -ENOMEM);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, NFT_TYPE_IFNAME);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, IFNAMSIZ);
	nftnl_set_set_u32(s, NFTNL_SET_ID, family); /* any number that is unique in the batch */

	nftnl_set_nlmsg_build_payload(nft_batch_message(b, NFT_MSG_NEWSET, family, NLM_F_CREATE),
				      s);
	nft_batch_next(b);
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

static void put_some_names(struct nft_batch *b, uint16_t family, const char *const *names, size_t n)
{
	_cleanup_set_ struct nftnl_set *s = set_new(family);
	struct nlmsghdr *nlh;

	if (!s)
		return nft_batch_fail(b, -ENOMEM);
	for (size_t i = 0; i < n; i++)
		if (!set_add_name(s, names[i]))
			return nft_batch_fail(b, -ENOMEM);

	nlh = nft_batch_message(b, NFT_MSG_NEWSETELEM, family, NLM_F_CREATE);
	nftnl_set_elems_nlmsg_build_payload(nlh, s);
	nft_batch_next(b);
}

void rules_put_names(struct nft_batch *b, uint16_t family, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i += NAMES_PER_MESSAGE) {
		size_t left = n - i;

		put_some_names(b, family, names + i,
			       left < NAMES_PER_MESSAGE ? left : NAMES_PER_MESSAGE);
	}
}

void rules_put_chain(struct nft_batch *b, uint16_t family, const struct rules_chain *chain)
{
	_cleanup_chain_ struct nftnl_chain *c = nftnl_chain_alloc();
	struct nlmsghdr *nlh;

	if (!c || nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, RULES_TABLE) < 0 ||
	    nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, chain->name) < 0 ||
	    nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, "filter") < 0)
		return nft_batch_fail(b, -ENOMEM);
	nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, chain->hook);
	nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, chain->priority);
	nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);

	nlh = nft_batch_message(b, NFT_MSG_NEWCHAIN, family, NLM_F_CREATE);
	nftnl_chain_nlmsg_build_payload(nlh, c);
	nft_batch_next(b);
}

void rules_put_rule(struct nft_batch *b, uint16_t family, const struct rules_config *cfg,
		    enum rules_kind kind, const struct rules_entry *r)
{
	_cleanup_rule_ struct nftnl_rule *rule = nftnl_rule_alloc();
	struct nlmsghdr *nlh;

	if (!rule || nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, RULES_TABLE) < 0 ||
	    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, r->chain->name) < 0 ||
	    !rules_add_rule(rule, r->rule, cfg, kind))
		return nft_batch_fail(b, -ENOMEM);

	nlh = nft_batch_message(b, NFT_MSG_NEWRULE, family, NLM_F_CREATE | NLM_F_APPEND);
	nftnl_rule_nlmsg_build_payload(nlh, rule);
	nft_batch_next(b);
}
