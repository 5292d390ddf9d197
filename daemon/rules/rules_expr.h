/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_expr.h - the rules themselves, as expressions for the kernel and as text for nft(8).
 */
#pragma once

#include <libnftnl/rule.h>
#include <stdbool.h>
#include <stdio.h>

#include "rules.h"

#define RULES_SET "ifaces" /* the outgoing interfaces */

enum rules_rule {
	RULES_SYN, /* outgoing SYNs of translated connections are queued */
	/* and with the queue datapath: */
	RULES_END, /* so are the FINs of those that are not shifted: they have the last TSval */
	/* and what conntrack picks up in the middle: it may have lost a shifted connection with its
	   mark */
	RULES_STRAY,
	RULES_MARK, /* a SYN that was shifted, or one of those, marks its connection */
	RULES_OUT,  /* segments of marked connections are queued */
	RULES_IN,   /* both ways */
	/* and so is an ACK that refuses the SYN of a connection that is not shifted */
	RULES_CHALLENGE,
};

/* Add what the rule consists of. False when memory is short. */
bool rules_add_rule(struct nftnl_rule *rule, enum rules_rule which, const struct rules_config *cfg,
		    enum rules_kind kind);

/*
 * The same, as nft(8) reads it after "add rule FAMILY TABLE CHAIN", with the native queue
 * expression.
 */
void rules_print_rule(FILE *f, enum rules_rule which, const struct rules_config *cfg);
