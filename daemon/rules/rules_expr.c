// SPDX-License-Identifier: GPL-2.0-or-later
#include <netinet/in.h> /* before linux/netfilter.h, which then leaves it alone */

#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter/xt_NFQUEUE.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libnftnl/expr.h>

#include "rules_expr.h"
#include "base/util.h"

#define FLAGS_OF_A_SYN (TH_FIN | TH_SYN | TH_RST | TH_ACK)

struct field {
	uint16_t attr;
	const void *data;
	uint32_t len;
};

#define U8(attr, value)                                          \
	{                                                        \
		attr, &(const uint8_t){ value }, sizeof(uint8_t) \
	}
#define U16(attr, value)                                           \
	{                                                          \
		attr, &(const uint16_t){ value }, sizeof(uint16_t) \
	}
#define U32(attr, value)                                           \
	{                                                          \
		attr, &(const uint32_t){ value }, sizeof(uint32_t) \
	}
#define STR(attr, text)                  \
	{                                \
		attr, text, sizeof(text) \
	}

static struct nftnl_expr *add_expr(struct nftnl_rule *rule, const char *name)
{
	struct nftnl_expr *e = nftnl_expr_alloc(name);

	if (e)
		nftnl_rule_add_expr(rule, e); /* the rule owns it now */
	return e;
}

static bool add_fields(struct nftnl_rule *rule, const char *name, const struct field *f, size_t n)
{
	struct nftnl_expr *e = add_expr(rule, name);

	if (!e)
		return false;
	for (; n > 0; n--, f++)
		if (nftnl_expr_set(e, f->attr, f->data, f->len) < 0)
			return false;
	return true;
}

/* Add the expression NAME with these fields. False when memory is short. */
#define EXPR(rule, name, ...)                                         \
	add_fields(rule, name, (const struct field[]){ __VA_ARGS__ }, \
		   ARRAY_SIZE(((const struct field[]){ __VA_ARGS__ })))

/* ---- load register 1, change it, compare it ---- */

static bool load_meta(struct nftnl_rule *rule, uint32_t key)
{
	return EXPR(rule, "meta", U32(NFTNL_EXPR_META_KEY, key),
		    U32(NFTNL_EXPR_META_DREG, NFT_REG_1));
}

static bool load_ct(struct nftnl_rule *rule, uint32_t key)
{
	return EXPR(rule, "ct", U32(NFTNL_EXPR_CT_KEY, key), U32(NFTNL_EXPR_CT_DREG, NFT_REG_1));
}

/* Register 1 = (register 1 & MASK) ^ XOR, in the byte order of the loaded value. */
static bool change32(struct nftnl_rule *rule, uint32_t mask, uint32_t xor)
{
	return EXPR(rule, "bitwise", U32(NFTNL_EXPR_BITWISE_SREG, NFT_REG_1),
		    U32(NFTNL_EXPR_BITWISE_DREG, NFT_REG_1), U32(NFTNL_EXPR_BITWISE_LEN, 4),
		    U32(NFTNL_EXPR_BITWISE_MASK, mask), U32(NFTNL_EXPR_BITWISE_XOR, xor));
}

static bool compare8(struct nftnl_rule *rule, uint32_t op, uint8_t value)
{
	return EXPR(rule, "cmp", U32(NFTNL_EXPR_CMP_SREG, NFT_REG_1), U32(NFTNL_EXPR_CMP_OP, op),
		    U8(NFTNL_EXPR_CMP_DATA, value));
}

static bool compare32(struct nftnl_rule *rule, uint32_t op, uint32_t value)
{
	return EXPR(rule, "cmp", U32(NFTNL_EXPR_CMP_SREG, NFT_REG_1), U32(NFTNL_EXPR_CMP_OP, op),
		    U32(NFTNL_EXPR_CMP_DATA, value));
}

/* ---- matches ---- */

static bool match_tcp(struct nftnl_rule *rule)
{
	return load_meta(rule, NFT_META_L4PROTO) && compare8(rule, NFT_CMP_EQ, IPPROTO_TCP);
}

static bool match_interface(struct nftnl_rule *rule, uint32_t key)
{
	return load_meta(rule, key) && EXPR(rule, "lookup", U32(NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1),
					    STR(NFTNL_EXPR_LOOKUP_SET, RULES_SET));
}

static bool match_flags(struct nftnl_rule *rule, uint8_t mask, uint32_t op, uint8_t value)
{
	return EXPR(rule, "payload", U32(NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER),
		    U32(NFTNL_EXPR_PAYLOAD_OFFSET, 13), U32(NFTNL_EXPR_PAYLOAD_LEN, 1),
		    U32(NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1)) &&
	       EXPR(rule, "bitwise", U32(NFTNL_EXPR_BITWISE_SREG, NFT_REG_1),
		    U32(NFTNL_EXPR_BITWISE_DREG, NFT_REG_1), U32(NFTNL_EXPR_BITWISE_LEN, 1),
		    U8(NFTNL_EXPR_BITWISE_MASK, mask), U8(NFTNL_EXPR_BITWISE_XOR, 0)) &&
	       compare8(rule, op, value);
}

/* Other flags do not matter: SYNs that offer ECN or AccECN match, too. */
static bool match_syn(struct nftnl_rule *rule)
{
	return match_flags(rule, FLAGS_OF_A_SYN, NFT_CMP_EQ, TH_SYN);
}

/* MASK and VALUE in host byte order, as the kernel loads the status. */
static bool match_status(struct nftnl_rule *rule, uint32_t mask, uint32_t op, uint32_t value)
{
	return load_ct(rule, NFT_CT_STATUS) && change32(rule, mask, 0) &&
	       compare32(rule, op, value);
}

static bool match_state_new(struct nftnl_rule *rule)
{
	return load_ct(rule, NFT_CT_STATE) && change32(rule, NF_CT_STATE_BIT(IP_CT_NEW), 0) &&
	       compare32(rule, NFT_CMP_NEQ, 0);
}

static bool match_direction(struct nftnl_rule *rule, uint8_t direction)
{
	return load_ct(rule, NFT_CT_DIRECTION) && compare8(rule, NFT_CMP_EQ, direction);
}

static bool match_ct_mark(struct nftnl_rule *rule, const struct rules_config *cfg, uint32_t op)
{
	return load_ct(rule, NFT_CT_MARK) && change32(rule, cfg->mark_mask, 0) &&
	       compare32(rule, op, cfg->mark_mask);
}

static bool match_packet_mark(struct nftnl_rule *rule, const struct rules_config *cfg)
{
	return load_meta(rule, NFT_META_MARK) && change32(rule, cfg->mark_mask, 0) &&
	       compare32(rule, NFT_CMP_EQ, cfg->mark_mask);
}

/* ---- statements ---- */

/* Set our bits of the ct mark, and clear them in the packet mark. Other bits stay. */
static bool mark_connection(struct nftnl_rule *rule, const struct rules_config *cfg)
{
	return load_ct(rule, NFT_CT_MARK) && change32(rule, ~cfg->mark_mask, cfg->mark_mask) &&
	       EXPR(rule, "ct", U32(NFTNL_EXPR_CT_KEY, NFT_CT_MARK),
		    U32(NFTNL_EXPR_CT_SREG, NFT_REG_1)) &&
	       load_meta(rule, NFT_META_MARK) && change32(rule, ~cfg->mark_mask, 0) &&
	       EXPR(rule, "meta", U32(NFTNL_EXPR_META_KEY, NFT_META_MARK),
		    U32(NFTNL_EXPR_META_SREG, NFT_REG_1));
}

/* The packet goes on with the next base chain. */
static bool accept_packet(struct nftnl_rule *rule)
{
	return EXPR(rule, "immediate", U32(NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT),
		    U32(NFTNL_EXPR_IMM_VERDICT, NF_ACCEPT));
}

static bool queue_by_expression(struct nftnl_rule *rule, const struct rules_config *cfg,
				enum rules_queue which)
{
	uint16_t fanout = cfg->queues > 1 ? NFT_QUEUE_FLAG_CPU_FANOUT : 0;
	uint16_t bypass = which == RULES_SYNS ? NFT_QUEUE_FLAG_BYPASS : 0;

	return EXPR(rule, "queue", U16(NFTNL_EXPR_QUEUE_NUM, rules_first_queue(cfg, which)),
		    U16(NFTNL_EXPR_QUEUE_TOTAL, cfg->queues),
		    U16(NFTNL_EXPR_QUEUE_FLAGS, bypass | fanout));
}

static bool queue_by_target(struct nftnl_rule *rule, const struct rules_config *cfg,
			    enum rules_queue which)
{
	size_t size = XT_ALIGN(sizeof(struct xt_NFQ_info_v3));
	struct xt_NFQ_info_v3 *info;
	struct nftnl_expr *e = add_expr(rule, "target");

	info = e ? calloc(1, size) : NULL;
	if (!info)
		return false;
	info->queuenum = rules_first_queue(cfg, which);
	info->queues_total = cfg->queues;
	info->flags = (which == RULES_SYNS ? NFQ_FLAG_BYPASS : 0) |
		      (cfg->queues > 1 ? NFQ_FLAG_CPU_FANOUT : 0);
	nftnl_expr_set(e, NFTNL_EXPR_TG_INFO, info, (uint32_t)size); /* e owns it now */
	nftnl_expr_set_u32(e, NFTNL_EXPR_TG_REV, 3);
	return nftnl_expr_set_str(e, NFTNL_EXPR_TG_NAME, "NFQUEUE") == 0;
}

static bool queue(struct nftnl_rule *rule, const struct rules_config *cfg, enum rules_kind kind,
		  enum rules_queue which)
{
	if (!EXPR(rule, "counter"))
		return false;
	switch (kind) {
	case RULES_QUEUE:
		return queue_by_expression(rule, cfg, which);
	case RULES_NFQUEUE:
		return queue_by_target(rule, cfg, which);
	case RULES_NONE:
		break;
	}
	assert(false);
	return false;
}

/* ---- the rules. rules_add_rule() and rules_print_rule() must agree ---- */

bool rules_add_rule(struct nftnl_rule *rule, enum rules_rule which, const struct rules_config *cfg,
		    enum rules_kind kind)
{
	const bool in = which == RULES_IN || which == RULES_CHALLENGE;

	if (!match_tcp(rule) || !match_interface(rule, in ? NFT_META_IIFNAME : NFT_META_OIFNAME))
		return false;
	switch (which) {
	case RULES_SYN:
		return match_syn(rule) && match_status(rule, IPS_SRC_NAT, NFT_CMP_NEQ, 0) &&
		       queue(rule, cfg, kind, RULES_SYNS);
	case RULES_END:
		return match_flags(rule, TH_FIN | TH_RST, NFT_CMP_EQ, TH_FIN) &&
		       match_status(rule, IPS_SRC_NAT, NFT_CMP_NEQ, 0) &&
		       match_direction(rule, IP_CT_DIR_ORIGINAL) &&
		       match_ct_mark(rule, cfg, NFT_CMP_NEQ) && queue(rule, cfg, kind, RULES_SYNS);
	case RULES_STRAY:
		return match_flags(rule, FLAGS_OF_A_SYN, NFT_CMP_NEQ, TH_SYN) &&
		       match_state_new(rule) && match_status(rule, IPS_SRC_NAT, NFT_CMP_NEQ, 0) &&
		       queue(rule, cfg, kind, RULES_SYNS);
	case RULES_MARK:
		return match_packet_mark(rule, cfg) && EXPR(rule, "counter") &&
		       mark_connection(rule, cfg) && accept_packet(rule);
	case RULES_OUT:
		return match_flags(rule, FLAGS_OF_A_SYN, NFT_CMP_NEQ, TH_SYN) &&
		       match_direction(rule, IP_CT_DIR_ORIGINAL) &&
		       match_ct_mark(rule, cfg, NFT_CMP_EQ) &&
		       queue(rule, cfg, kind, RULES_SEGMENTS_OUT);
	case RULES_IN:
		return match_direction(rule, IP_CT_DIR_REPLY) &&
		       match_ct_mark(rule, cfg, NFT_CMP_EQ) &&
		       queue(rule, cfg, kind, RULES_SEGMENTS_IN);
	case RULES_CHALLENGE:
		return match_flags(rule, FLAGS_OF_A_SYN, NFT_CMP_EQ, TH_ACK) &&
		       match_direction(rule, IP_CT_DIR_REPLY) &&
		       match_status(rule, IPS_SRC_NAT | IPS_ASSURED, NFT_CMP_EQ, IPS_SRC_NAT) &&
		       queue(rule, cfg, kind, RULES_SYNS);
	}
	assert(false);
	return false;
}

static void print_queue(FILE *f, const struct rules_config *cfg, enum rules_queue which)
{
	const unsigned int first = rules_first_queue(cfg, which);
	const bool bypass = which == RULES_SYNS, fanout = cfg->queues > 1;

	fprintf(f, " counter queue%s%s%s%s to %u", bypass || fanout ? " flags " : "",
		bypass ? "bypass" : "", bypass && fanout ? "," : "", fanout ? "fanout" : "", first);
	if (fanout)
		fprintf(f, "-%u", first + cfg->queues - 1u);
	fputc('\n', f);
}

#define PRINT_OUT "meta l4proto tcp oifname @" RULES_SET " "
#define PRINT_IN "meta l4proto tcp iifname @" RULES_SET " "

void rules_print_rule(FILE *f, enum rules_rule which, const struct rules_config *cfg)
{
	const unsigned int mask = cfg->mark_mask;

	switch (which) {
	case RULES_SYN:
		fputs(PRINT_OUT "tcp flags & (fin | syn | rst | ack) == syn ct status snat", f);
		return print_queue(f, cfg, RULES_SYNS);
	case RULES_END:
		fprintf(f,
			PRINT_OUT "tcp flags & (fin | rst) == fin ct status snat ct direction "
				  "original ct mark & 0x%x != 0x%x",
			mask, mask);
		return print_queue(f, cfg, RULES_SYNS);
	case RULES_STRAY:
		fputs(PRINT_OUT
		      "tcp flags & (fin | syn | rst | ack) != syn ct state new ct status snat",
		      f);
		return print_queue(f, cfg, RULES_SYNS);
	case RULES_MARK:
		fprintf(f,
			PRINT_OUT
			"meta mark & 0x%x == 0x%x counter "
			"ct mark set ct mark & 0x%x | 0x%x meta mark set meta mark & 0x%x accept\n",
			mask, mask, ~mask, mask, ~mask);
		return;
	case RULES_OUT:
		fprintf(f,
			PRINT_OUT "tcp flags & (fin | syn | rst | ack) != syn ct direction "
				  "original ct mark & 0x%x == 0x%x",
			mask, mask);
		return print_queue(f, cfg, RULES_SEGMENTS_OUT);
	case RULES_IN:
		fprintf(f, PRINT_IN "ct direction reply ct mark & 0x%x == 0x%x", mask, mask);
		return print_queue(f, cfg, RULES_SEGMENTS_IN);
	case RULES_CHALLENGE:
		fputs(PRINT_IN "tcp flags & (fin | syn | rst | ack) == ack ct direction reply ct "
			       "status & (snat | assured) == snat",
		      f);
		return print_queue(f, cfg, RULES_SYNS);
	}
}
