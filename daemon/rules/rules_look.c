// SPDX-License-Identifier: GPL-2.0-or-later
#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter/xt_NFQUEUE.h>
#include <net/if.h>
#include <string.h>

#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>

#include "rules_look.h"
#include "rules_parts.h"
#include "rules_table.h"
#include "base/util.h"

struct look {
	const struct rules_config *cfg;
	const struct rules_chain *chain;
	bool found;
	unsigned int rules;
};

/* A dormant table counts as missing: its chains are not called. */
static int look_at_table(const struct nlmsghdr *nlh, void *data)
{
	struct look *look = data;
	const struct nlattr *a;

	look->found = true;
	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == NFTA_TABLE_FLAGS &&
		    mnl_attr_validate(a, MNL_TYPE_U32) == 0 &&
		    ntohl(mnl_attr_get_u32(a)) & NFT_TABLE_F_DORMANT)
			look->found = false;
	}
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
	    nftnl_expr_get_u16(e, NFTNL_EXPR_QUEUE_NUM) ==
		    rules_first_queue(look->cfg, look->chain->queue) &&
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

/* The parts that each family must have, and how to ask for them. */
static const struct part {
	uint16_t type;
	uint16_t flags;
	uint16_t attr;	  /* the attribute for NAME */
	const char *name; /* NULL: the name of the chain */
	mnl_cb_t look;
} table_part = { NFT_MSG_GETTABLE, NLM_F_ACK, NFTA_TABLE_NAME, RULES_TABLE, look_at_table },
  set_part = { NFT_MSG_GETSET, NLM_F_ACK, NFTA_SET_NAME, RULES_SET, look_at_set },
  chain_part = { NFT_MSG_GETCHAIN, NLM_F_ACK, NFTA_CHAIN_NAME, NULL, look_at_chain },
  rules_part = { NFT_MSG_GETRULE, NLM_F_DUMP, NFTA_RULE_CHAIN, NULL, look_at_rule };

static int ask_once(struct nft *nft, const struct part *p, uint16_t family, struct look *look)
{
	char buf[256] __attribute__((aligned(8))) = { 0 };
	struct nlmsghdr *nlh = nftnl_nlmsg_build_hdr(buf, p->type, family, p->flags, ++nft->seq);
	struct iovec iov = { .iov_base = buf };
	ssize_t len;
	int more;

	if (p->attr != RULES_ATTR_TABLE)
		mnl_attr_put_strz(nlh, RULES_ATTR_TABLE, RULES_TABLE);
	mnl_attr_put_strz(nlh, p->attr, p->name ? p->name : look->chain->name);
	iov.iov_len = nlh->nlmsg_len;

	len = nft_send(nft, &iov, 1);
	do {
		len = len < 0 ? len : nft_receive(nft, 0);
		if (len < 0)
			return (int)len;
		more = mnl_cb_run(nft->answer, (size_t)len, nft->seq, 0, p->look, look);
	} while (more > 0);
	return more < 0 ? -errno : 0;
}

/* Returns 1, 0 or -errno. CHAIN is NULL for tables and sets. RET_RULES may be NULL. */
static int part_present(struct nft *nft, const struct rules_config *cfg, const struct part *p,
			uint16_t family, const struct rules_chain *chain, unsigned int *ret_rules)
{
	struct look look;
	int err = -EINTR;

	/* EINTR: somebody changed the rules while we read them. */
	for (int i = 0; i < NFT_TRIES && err == -EINTR; i++) {
		look = (struct look){ .cfg = cfg, .chain = chain };
		err = ask_once(nft, p, family, &look);
	}
	if (err < 0)
		return err == -ENOENT ? 0 : err;
	if (ret_rules)
		*ret_rules = look.rules;
	return look.found;
}

static unsigned int wanted_rules(const struct rules_config *cfg, const struct rules_chain *chain)
{
	unsigned int n = 0;

	for (size_t i = 0; i < RULES_ENTRIES; i++)
		n += rules_entries[i].chain == chain && RULES_WANTED(&rules_entries[i], cfg);
	return n;
}

static int chain_present(struct nft *nft, const struct rules_config *cfg, uint16_t family,
			 const struct rules_chain *chain)
{
	unsigned int rules = 0;
	int present = part_present(nft, cfg, &chain_part, family, chain, NULL);

	if (present != 1)
		return present;
	present = part_present(nft, cfg, &rules_part, family, chain, &rules);
	return present == 1 ? rules >= wanted_rules(cfg, chain) : present;
}

static int family_present(struct nft *nft, const struct rules_config *cfg, uint16_t family)
{
	int present = part_present(nft, cfg, &table_part, family, NULL, NULL);

	if (present != 1)
		return present;
	present = part_present(nft, cfg, &set_part, family, NULL, NULL);
	for (size_t i = 0; i < RULES_CHAINS && present == 1; i++)
		if (RULES_WANTED(&rules_chains[i], cfg))
			present = chain_present(nft, cfg, family, &rules_chains[i]);
	return present;
}

int rules_look(struct nft *nft, const struct rules_config *cfg)
{
	for (size_t f = 0; f < RULES_FAMILIES; f++) {
		int present = family_present(nft, cfg, rules_families[f]);

		if (present != 1)
			return present;
	}
	return 1;
}
