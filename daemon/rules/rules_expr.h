/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_expr.h - each rule, as expressions for the kernel and as text for nft(8).
 */
#pragma once

#include <libnftnl/rule.h>
#include <stdbool.h>
#include <stdio.h>

#include "rules.h"

#define RULES_SET "ifaces" /* the outgoing interfaces */

enum rules_rule {
	/* Queue outgoing SYNs of translated connections. */
	RULES_SYN,

	/* All others are for the queue datapath. */

	/* Queue outgoing FINs of unshifted connections: they carry the last TSval. */
	RULES_END,
	/*
	 * Queue segments of connections that conntrack knows only from the middle. They may be
	 * shifted ones that conntrack forgot, and with them their mark.
	 */
	RULES_STRAY,
	/* Set the connection's mark when a verdict marked its SYN or its stray segment. */
	RULES_MARK,
	/* Queue outgoing segments of marked connections. */
	RULES_OUT,
	/* Queue incoming segments of marked connections. */
	RULES_IN,
	/* Queue ACKs that may refuse the SYN of an unshifted connection (challenge ACKs). */
	RULES_CHALLENGE,
};

/* Add the expressions of WHICH to RULE. KIND is not RULES_NONE. False when memory is short. */
bool rules_add_rule(struct nftnl_rule *rule, enum rules_rule which, const struct rules_config *cfg,
		    enum rules_kind kind);

/*
 * Write the same rule as a line that nft(8) reads after "add rule FAMILY TABLE CHAIN", with nft's
 * own queue expression.
 */
void rules_print_rule(FILE *f, enum rules_rule which, const struct rules_config *cfg);
