/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules.c - installs, changes and removes our nft tables.
 *
 * Only rules_remove() deletes base chains: the kernel then drops every queued packet of the
 * namespace, whoever queued it.
 */
#include "rules.h"

#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "nft.h"
#include "rules_look.h"
#include "rules_parts.h"
#include "rules_table.h"
#include "base/util.h"

struct rules {
	struct nft nft;
	struct rules_config cfg;
	enum rules_kind kind;
	char error[160];
};

/* ---- error texts for the administrator ---- */

/* The object that a message of TYPE (NFT_MSG_*) changes. */
static const char *object_of(uint16_t type)
{
	switch (type & 0xff) {
	case NFT_MSG_NEWTABLE:
	case NFT_MSG_DELTABLE:
		return "table " RULES_TABLE;
	case NFT_MSG_NEWCHAIN:
		return "chain postrouting";
	case NFT_MSG_NEWRULE:
	case NFT_MSG_DELRULE:
		return "the rule";
	default:
		return "set " RULES_SET;
	}
}

static bool is_unsupported(int err)
{
	return err == -ENOENT || err == -EOPNOTSUPP;
}

/* TYPE: the message that the kernel refused. */
static const char *explain_refusal(struct rules *r, int err, uint16_t type)
{
	if (err == -EPERM)
		return "table " RULES_TABLE " belongs to another program (flag owner)";
	if (is_unsupported(err) && (type & 0xff) == NFT_MSG_NEWRULE)
		return "this kernel has neither nft_queue nor nft_compat with xt_NFQUEUE, "
		       "or lacks nft_ct";
	if (err == -EEXIST || err == -EINVAL || err == -EOPNOTSUPP)
		snprintf(r->error, sizeof(r->error),
			 "table " RULES_TABLE
			 " exists, but differs from ours (%s); delete it first",
			 object_of(type));
	else
		snprintf(r->error, sizeof(r->error), "nf_tables refuses %s: %s", object_of(type),
			 strerror(-err));
	return r->error;
}

static const char *explain(struct rules *r, int err, uint16_t type)
{
	if (type >> 8 == NFNL_SUBSYS_NFTABLES)
		return explain_refusal(r, err, type);
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

/* ---- changes ---- */

static bool names_valid(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (names[i][0] == '\0' || strnlen(names[i], IFNAMSIZ) >= IFNAMSIZ)
			return false;
	return true;
}

static void put_all(struct nft_batch *b, uint16_t family, const struct rules_config *cfg,
		    enum rules_kind kind, const char *const *names, size_t n)
{
	rules_put_table(b, family);
	rules_put_set(b, family);
	for (size_t i = 0; i < RULES_CHAINS; i++) {
		if (!RULES_WANTED(&rules_chains[i], cfg))
			continue;
		rules_put_chain(b, family, &rules_chains[i]);
		rules_put_flush_chain(b, family, &rules_chains[i]);
	}
	rules_put_flush_names(b, family);
	rules_put_names(b, family, names, n);
	for (size_t i = 0; i < RULES_ENTRIES; i++)
		if (RULES_WANTED(&rules_entries[i], cfg))
			rules_put_rule(b, family, cfg, kind, &rules_entries[i]);
}

static int install_as(struct rules *r, enum rules_kind kind, const char *const *names, size_t n,
		      uint16_t *ret_error_type)
{
	_cleanup_batch_ struct nft_batch b = { 0 };
	int err = nft_batch_begin(&b, &r->nft);

	if (err < 0)
		return err;
	for (size_t i = 0; i < RULES_FAMILIES; i++)
		put_all(&b, rules_families[i], &r->cfg, kind, names, n);
	err = nft_batch_commit(&r->nft, &b);
	*ret_error_type = b.error_type;
	return err;
}

/* Some kernels lack nft's queue expression, whatever their version. Trying finds out. */
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

static void put_flush_syn(struct nft_batch *b, uint16_t family)
{
	rules_put_flush_chain(b, family, RULES_CHAIN_SYN);
}

static void put_flush_out(struct nft_batch *b, uint16_t family)
{
	rules_put_flush_chain(b, family, RULES_CHAIN_OUT);
}

static void put_flush_in(struct nft_batch *b, uint16_t family)
{
	rules_put_flush_chain(b, family, RULES_CHAIN_IN);
}

/*
 * Send the message of PUT for each family. Each has a batch of its own, so that an object missing
 * in one family does not stop the deletion in the other.
 */
static int take_away(struct rules *r, void (*put)(struct nft_batch *b, uint16_t family))
{
	int ret = 0;

	for (size_t i = 0; i < RULES_FAMILIES; i++) {
		_cleanup_batch_ struct nft_batch b = { 0 };
		int err = nft_batch_begin(&b, &r->nft);

		if (err == 0) {
			put(&b, rules_families[i]);
			err = nft_batch_commit(&r->nft, &b);
		}
		if (err < 0 && err != -ENOENT)
			ret = err;
	}
	if (ret == 0)
		r->kind = RULES_NONE;
	return ret;
}

/* Such rules of an earlier run would drop segments, because their queues have no reader now. */
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
	_cleanup_batch_ struct nft_batch b = { 0 };
	int err;

	if (!names_valid(ifaces, n))
		return -EINVAL;
	err = nft_batch_begin(&b, &r->nft);
	if (err < 0)
		return err;
	for (size_t i = 0; i < RULES_FAMILIES; i++) {
		rules_put_flush_names(&b, rules_families[i]);
		rules_put_names(&b, rules_families[i], ifaces, n);
	}
	return nft_batch_commit(&r->nft, &b);
}

int rules_pause(struct rules *r)
{
	return take_away(r, put_flush_syn);
}

int rules_remove(struct rules *r)
{
	return take_away(r, rules_put_delete_table);
}

int rules_present(struct rules *r)
{
	return rules_look(&r->nft, &r->cfg);
}

enum rules_kind rules_get_kind(const struct rules *r)
{
	return r->kind;
}

/* ---- create and free ---- */

int rules_new(struct rules **ret, const struct rules_config *cfg)
{
	struct rules *r;
	int err;

	if (cfg->queues == 0 ||
	    cfg->queue_num + (cfg->segments ? 3 : 1) * cfg->queues - 1 > UINT16_MAX ||
	    (cfg->segments && !cfg->mark_mask))
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->cfg = *cfg;
	err = nft_open(&r->nft);
	if (err < 0) {
		rules_free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void rules_free(struct rules *r)
{
	if (r)
		nft_close(&r->nft);
	free(r);
}
