// SPDX-License-Identifier: GPL-2.0-or-later
#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "rules_table.h"

static_assert(NFTA_TABLE_NAME == RULES_ATTR_TABLE && NFTA_CHAIN_TABLE == RULES_ATTR_TABLE &&
		      NFTA_SET_TABLE == RULES_ATTR_TABLE && NFTA_RULE_TABLE == RULES_ATTR_TABLE &&
		      NFTA_SET_ELEM_LIST_TABLE == RULES_ATTR_TABLE,
	      "the table's name is attribute 1");

const struct rules_chain rules_chains[RULES_CHAINS] = {
	/* After srcnat (100): the packet is as the server will see it. */
	{ "postrouting", NF_INET_POST_ROUTING, 110, RULES_SYNS, false },
	/* After "postrouting": an accepted SYN goes on here, with the mark that its verdict set. */
	{ "shifted_out", NF_INET_POST_ROUTING, 111, RULES_SEGMENTS_OUT, true },
	/* After conntrack's lookup (-200) and before dstnat (-100), which undoes the NAT. */
	{ "shifted_in", NF_INET_PRE_ROUTING, -110, RULES_SEGMENTS_IN, true },
};

const struct rules_entry rules_entries[RULES_ENTRIES] = {
	{ RULES_SYN, RULES_CHAIN_SYN, false },	   { RULES_END, RULES_CHAIN_SYN, true },
	{ RULES_STRAY, RULES_CHAIN_SYN, true },	   { RULES_MARK, RULES_CHAIN_OUT, true },
	{ RULES_OUT, RULES_CHAIN_OUT, true },	   { RULES_IN, RULES_CHAIN_IN, true },
	{ RULES_CHALLENGE, RULES_CHAIN_IN, true },
};

const uint16_t rules_families[RULES_FAMILIES] = { NFPROTO_IPV4, NFPROTO_IPV6 };
const char *const rules_family_names[RULES_FAMILIES] = { "ip", "ip6" };
