/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules.h - the nft tables "tsnatd" of families ip and ip6, whose rules queue packets to the
 * daemon.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct rules;

struct rules_config {
	uint16_t queue_num; /* the first queue */
	uint16_t queues;    /* queues of each kind; more than one: CPU fanout */
	/* For the queue datapath: mark shifted connections, and queue their segments both ways. */
	bool segments;
	/*
	 * With SEGMENTS: the bits of ct mark that are set on shifted connections. A verdict sets
	 * them in a SYN's packet mark, and a rule moves them to the ct mark.
	 */
	uint32_t mark_mask;
};

/*
 * The kinds of queues, in the order of their numbers. Without rules_config.segments there is only
 * the first kind.
 */
enum rules_queue {
	RULES_SYNS, /* bypassed when nobody reads it */
	/* Never bypassed: a segment that leaves without its shift breaks the connection. */
	RULES_SEGMENTS_OUT,
	RULES_SEGMENTS_IN,
};

static inline uint16_t rules_first_queue(const struct rules_config *cfg, enum rules_queue which)
{
	return (uint16_t)(cfg->queue_num + which * cfg->queues);
}

/* How rules queue packets. rules_install() finds it by trying. */
enum rules_kind {
	RULES_NONE,    /* not installed */
	RULES_QUEUE,   /* nft's own queue expression */
	RULES_NFQUEUE, /* the xtables target through nft's compat layer */
};

/*
 * Open the netlink socket; nothing is installed yet. Returns 0 or -errno: -EINVAL when there is no
 * queue, a queue number is above 65535 or the mark mask is missing; -EPROTONOSUPPORT when the
 * kernel has no netlink for netfilter.
 */
int rules_new(struct rules **ret, const struct rules_config *cfg);
/* Does not remove installed rules. NULL is allowed. */
void rules_free(struct rules *r);

/*
 * Install our nft tables for the N interface names in IFACES. Tables of an earlier run are taken
 * over and corrected without deleting a base chain: the kernel would then drop every queued packet
 * in the namespace.
 *
 * First, without rules_config.segments, it deletes the rules for segments that a run with the queue
 * datapath left. The rest is all or nothing, except that with -ENOBUFS and -ETIMEDOUT only the
 * kernel's answer may be lost. It may always be called again.
 *
 * Returns 0 or -errno. On failure *RET_ERROR, when RET_ERROR is not NULL, is a text for the
 * administrator (static storage, or owned by R and valid until the next call).
 */
int rules_install(struct rules *r, const char *const *ifaces, size_t n, const char **ret_error);

/*
 * Replace the interface names in one transaction; the rules and their counters stay. Returns 0 or
 * -errno: -ENOENT when an nft table is missing: call rules_install().
 */
int rules_set_interfaces(struct rules *r, const char *const *ifaces, size_t n);

/*
 * Delete the rules that queue SYNs. The base chains stay, so that waiting packets are not dropped,
 * and so do the rules for segments of shifted connections. Missing nft tables are no error. Returns
 * 0 or -errno.
 */
int rules_pause(struct rules *r);

/*
 * Delete our nft tables. The kernel then drops every queued packet in the namespace: first call
 * rules_pause() and let the queues run empty. Missing nft tables are no error. Returns 0 or -errno.
 */
int rules_remove(struct rules *r);

/*
 * Returns 1 when our nft tables (not dormant), sets, chains and rules are all there, 0 when
 * something is missing or different, or -errno when the kernel did not answer.
 */
int rules_present(struct rules *r);

/* RULES_NONE before rules_install(), and after rules_pause() and rules_remove(). */
enum rules_kind rules_get_kind(const struct rules *r);

/*
 * Write the rules of rules_install() as a file for nft -f, with nft's own queue expression. The
 * file may be loaded again: it flushes the chains first.
 */
void rules_print(FILE *f, const struct rules_config *cfg, const char *const *ifaces, size_t n);
