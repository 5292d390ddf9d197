/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules.h - our own nft tables: which packets are queued to the daemon.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct rules;

struct rules_config {
	uint16_t queue_num; /* the first queue */
	uint16_t queues;    /* how many of each kind; more than one: CPU fanout */
	/*
	 * The queue datapath's: shifted connections are marked, and their segments queued both
	 * ways.
	 */
	bool segments;
	/* the bits of ct mark, and for a moment of a SYN's packet mark, that say so */
	uint32_t mark_mask;
};

/*
 * The kinds of queues, numbered one behind the other. Only that of SYNs is there without the queue
 * datapath.
 */
enum rules_queue {
	RULES_SYNS, /* bypassed when nobody reads it */
	/* never bypassed: what leaves without its shift breaks the connection */
	RULES_SEGMENTS_OUT,
	RULES_SEGMENTS_IN,
};

static inline uint16_t rules_first_queue(const struct rules_config *cfg, enum rules_queue which)
{
	return (uint16_t)(cfg->queue_num + which * cfg->queues);
}

/* How packets get from a rule to the queue, found by trying. */
enum rules_kind {
	RULES_NONE,    /* not installed */
	RULES_QUEUE,   /* nft's own queue expression */
	RULES_NFQUEUE, /* the xtables target through nft's compat layer */
};

/*
 * Open the netlink socket. Returns 0 or -errno: -EINVAL when the queues are none or go beyond
 * 65535, -EPROTONOSUPPORT when the kernel has no netlink for netfilter.
 */
int rules_new(struct rules **ret, const struct rules_config *cfg);
void rules_free(struct rules *r); /* leaves what is installed */

/*
 * Install the tables "tsnatd" of families ip and ip6 for the N interface names in IFACES. Tables
 * that an earlier run left behind are taken over and made right, without deleting a base chain:
 * that would drop every queued packet in the namespace. All or nothing: on failure what was there
 * still is, unless it is -ENOBUFS or -ETIMEDOUT, when only the answer got lost; to call it again
 * is always right.
 *
 * Returns 0 or -errno; on failure a text for the administrator is in *ret_error when it isn't NULL
 * (static storage, or owned by R and valid until the next call).
 */
int rules_install(struct rules *r, const char *const *ifaces, size_t n, const char **ret_error);

/*
 * Replace the interface set's elements in one transaction; the rules and their counters stay.
 * Returns 0 or -errno: -ENOENT when a table is missing, which rules_install() cures.
 */
int rules_set_interfaces(struct rules *r, const char *const *ifaces, size_t n);

/*
 * Take the rules that queue SYNs out of their chains, so that no new one is queued; the base chains
 * stay, and with them the packets that wait, and the rules for segments of shifted connections.
 * Missing tables are no error. Returns 0 or -errno.
 */
int rules_pause(struct rules *r);

/*
 * Delete our tables, and with them every packet that is queued in the namespace: pause first, and
 * let the queue run empty. Missing tables are no error. Returns 0 or -errno.
 */
int rules_remove(struct rules *r);

/*
 * 1 when our tables (not dormant), sets, chains and rules are all there, 0 when something is
 * missing, -errno when the kernel did not say.
 */
int rules_present(struct rules *r);

/* RULES_NONE before rules_install() and after rules_pause() and rules_remove(). */
enum rules_kind rules_get_kind(const struct rules *r);

/*
 * What rules_install() makes, as a file for nft -f, with the native queue expression. Loading it
 * twice makes no second rule.
 */
void rules_print(FILE *f, const struct rules_config *cfg, const char *const *ifaces, size_t n);
