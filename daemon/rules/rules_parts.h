/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules_parts.h - adds the parts of our nft tables to a batch, one message each. Also cleanup
 * attributes for libnftnl's objects.
 */
#pragma once

#include <libnftnl/chain.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <stddef.h>
#include <stdint.h>

#include "nft.h"
#include "rules_table.h"

static inline void rules_free_set(struct nftnl_set **s)
{
	if (*s)
		nftnl_set_free(*s);
}
#define _cleanup_set_ __attribute__((cleanup(rules_free_set)))

static inline void rules_free_chain(struct nftnl_chain **c)
{
	if (*c)
		nftnl_chain_free(*c);
}
#define _cleanup_chain_ __attribute__((cleanup(rules_free_chain)))

static inline void rules_free_rule(struct nftnl_rule **rule)
{
	if (*rule)
		nftnl_rule_free(*rule);
}
#define _cleanup_rule_ __attribute__((cleanup(rules_free_rule)))

/*
 * Each adds one message, rules_put_names() as many as it needs. FAMILY is NFPROTO_*. Errors are
 * kept in the batch.
 */
void rules_put_table(struct nft_batch *b, uint16_t family);
void rules_put_delete_table(struct nft_batch *b, uint16_t family);
void rules_put_flush_chain(struct nft_batch *b, uint16_t family, const struct rules_chain *c);
void rules_put_flush_names(struct nft_batch *b, uint16_t family);
void rules_put_set(struct nft_batch *b, uint16_t family);
void rules_put_names(struct nft_batch *b, uint16_t family, const char *const *names, size_t n);
void rules_put_chain(struct nft_batch *b, uint16_t family, const struct rules_chain *chain);
void rules_put_rule(struct nft_batch *b, uint16_t family, const struct rules_config *cfg,
		    enum rules_kind kind, const struct rules_entry *r);
