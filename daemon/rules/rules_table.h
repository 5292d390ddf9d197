/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_table.h - what our tables consist of: the one list that making, looking and printing go by.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rules.h"
#include "rules_expr.h"

#define RULES_TABLE "tsnatd"

/* In each of these kinds of message the table's name is attribute 1. */
#define RULES_ATTR_TABLE 1

struct rules_chain {
	const char *name;
	uint32_t hook;
	int32_t priority;
	enum rules_queue queue; /* what its first rule that queues does it to */
	bool segments;		/* of the queue datapath alone */
};

/* What is in which chain, in this order. */
struct rules_entry {
	enum rules_rule rule;
	const struct rules_chain *chain;
	bool segments;
};

#define RULES_CHAINS 3
#define RULES_ENTRIES 7
#define RULES_FAMILIES 2

extern const struct rules_chain rules_chains[RULES_CHAINS];
extern const struct rules_entry rules_entries[RULES_ENTRIES];
extern const uint16_t rules_families[RULES_FAMILIES];
extern const char *const rules_family_names[RULES_FAMILIES]; /* nft(8)'s */

#define RULES_CHAIN_SYN (&rules_chains[0])
#define RULES_CHAIN_OUT (&rules_chains[1])
#define RULES_CHAIN_IN (&rules_chains[2])

/* Is the chain or entry X part of the tables that CFG wants? */
#define RULES_WANTED(x, cfg) (!(x)->segments || (cfg)->segments)
