/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_table.h - the lists of chains and rules that installing, checking and printing all use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rules.h"
#include "rules_expr.h"

#define RULES_TABLE "tsnatd"

/* The attribute for the name of the nft table, in all messages that we send. */
#define RULES_ATTR_TABLE 1

struct rules_chain {
	const char *name;
	uint32_t hook;
	int32_t priority;
	enum rules_queue queue; /* the queue of its first rule that queues */
	bool segments;		/* only with rules_config.segments */
};

/* A rule and its chain. The order of entries is the order of rules in a chain. */
struct rules_entry {
	enum rules_rule rule;
	const struct rules_chain *chain;
	bool segments; /* only with rules_config.segments */
};

#define RULES_CHAINS 3
#define RULES_ENTRIES 7
#define RULES_FAMILIES 2

extern const struct rules_chain rules_chains[RULES_CHAINS];
extern const struct rules_entry rules_entries[RULES_ENTRIES];
extern const uint16_t rules_families[RULES_FAMILIES];
extern const char *const rules_family_names[RULES_FAMILIES]; /* as nft(8) has them */

#define RULES_CHAIN_SYN (&rules_chains[0])
#define RULES_CHAIN_OUT (&rules_chains[1])
#define RULES_CHAIN_IN (&rules_chains[2])

/* Does CFG want the chain or entry X? */
#define RULES_WANTED(x, cfg) (!(x)->segments || (cfg)->segments)
