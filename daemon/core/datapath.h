/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * datapath.h - the interface of a datapath, which applies shifts to packets and keeps the records.
 *
 * A queued packet goes in and its verdict comes out, whichever datapath it is: datapath_bpf/ leaves
 * its decision about a SYN for the programs at the interfaces, datapath_queue/ rewrites the packet.
 * Nobody outside main.c and daemon_*.c, which choose one, asks which one it is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counters.h"
#include "decide.h"
#include "edits.h"
#include "record.h"

struct datapath;

struct datapath_config {
	const char *pin_dir;	 /* bpf: where maps are pinned, on a bpffs */
	const char *runtime_dir; /* queue: where the file of records is */
	uint32_t records;	 /* bound of the table */
	bool foreign_rules; /* queue: the rules are the administrator's, who may queue before NAT */
};

struct datapath_link {
	unsigned int ifindex;
	const char *name;
	bool has_ethernet; /* packets start with an Ethernet header */
};

/* An address or prefix that counts as translated source on an interface. */
struct datapath_external {
	unsigned int ifindex;
	uint8_t addr[16];  /* IPv4 as ::ffff:a.b.c.d */
	uint8_t prefixlen; /* of addr as IPv6: 128 for one address, 96 + n for IPv4 */
};

struct datapath_sweep {
	uint32_t scanned; /* by this slice */
	uint32_t removed;
	bool complete; /* the slice ended a round through the table */
};

typedef int datapath_each_fn(void *user, const struct tuple *t, const struct record *r);
typedef int datapath_destination_fn(void *user, const struct destination_key *k,
				    const struct destination *d);

/*
 * Does conntrack still know the connection of the tuple T? 1 yes, 0 no, -errno when it cannot be
 * asked.
 */
typedef int datapath_knows_fn(void *user, const struct tuple *t);

/* A packet that a queue hands to its datapath. */
struct datapath_packet {
	uint8_t *data; /* starts with the network header; rewritten in place */
	size_t len;
	bool outbound;	   /* to the server, else from it */
	bool partial;	   /* its checksum is partial: a changed packet needs a complete one */
	bool cut;	   /* DATA is only its beginning: it cannot be rewritten */
	bool unmarked;	   /* it is a SYN, or of a connection without shift */
	bool untranslated; /* conntrack says that no NAT changed its source */
	const struct inside *inside; /* NULL when no mapping came with the packet */
	/* boot clock, ns: the queue was seen empty then, so the packet came later */
	uint64_t empty_ns;
	datapath_knows_fn *knows; /* NULL when conntrack cannot be asked */
	void *knows_user;
};

/* The mark of the packet's connection from now on. */
enum datapath_mark {
	DATAPATH_MARK_KEEP,
	DATAPATH_MARK_SHIFTED,
	DATAPATH_MARK_UNSHIFTED,
};

/* The verdict on a queued packet. All zero: it leaves as it came. */
struct datapath_verdict {
	bool shared;  /* it leaves as it came, by one verdict for all packets of its batch */
	bool changed; /* it leaves as DATA is now */
	bool drop;    /* its shift cannot be applied; TCP sends it again, in smaller pieces */
	enum datapath_mark mark;

	/* for the datapath alone, from handle() to sent() */
	bool in_order;
	bool has_slot;
	uint32_t slot;
};

/*
 * All return 0 or -errno unless they say otherwise. The queues' threads call handle and sent, at
 * any time and several at once; each() may be called by any thread; the main loop alone calls the
 * rest.
 */
struct datapath_ops {
	const char *name;
	/*
	 * True: shifts are applied to queued packets. The rules have to queue the segments of
	 * shifted connections, too, which reach their peers only while a reader is there. False:
	 * programs at the interfaces apply shifts, and the queue brings the headers of SYNs.
	 */
	bool queues_segments;

	int (*open)(struct datapath **ret, const struct datapath_config *cfg,
		    const char **ret_error);
	void (*close)(struct datapath *dp);

	/*
	 * Returns 1 when the records are those of an earlier run in this boot, and writes that
	 * run's clock to RET_CLOCK; 0 when the records are new.
	 */
	int (*inherited)(struct datapath *dp, struct tsclock *ret_clock);
	/*
	 * The settings of all decisions from now on. A start, a reload and a stop tell them in this
	 * one way. Not ACTIVE: new connections are not decided any more, open ones keep their
	 * shift.
	 */
	int (*configure)(struct datapath *dp, const struct decide_settings *set, bool active);

	int (*attach)(struct datapath *dp, const struct datapath_link *link,
		      const char **ret_error);
	/* Remove our hooks from the link, and its qdisc if it is ours and empty. */
	int (*detach)(struct datapath *dp, const struct datapath_link *link);
	/* Returns 1 when our hooks are on the link, else 0. */
	int (*attached)(struct datapath *dp, const struct datapath_link *link);
	int (*set_externals)(struct datapath *dp, const struct datapath_external *ext, size_t n);

	/* Decide on a queued SYN, or apply its connection's shift to another queued segment. */
	void (*handle)(struct datapath *dp, const struct datapath_packet *p,
		       struct datapath_verdict *ret);
	/*
	 * The verdict was sent. The thread that called handle() calls this after each verdict that
	 * is not shared. NULL where all verdicts are shared.
	 */
	void (*sent)(struct datapath *dp, const struct datapath_verdict *v);

	/*
	 * Look at the next records, at least MAX if there are as many, and remove expired ones. A
	 * shifted connection that fell silent expires early only if KNOWS, unless it is NULL, says
	 * that conntrack has forgotten it. The clock is read after each record: by a time from
	 * before, a record that was used since would look weeks old.
	 */
	int (*sweep)(struct datapath *dp, uint32_t hold_ms, uint32_t max, datapath_knows_fn *knows,
		     void *user, struct datapath_sweep *ret);
	/* Call FN for each record. Ends early with FN's result if that is not 0. */
	int (*each)(struct datapath *dp, datapath_each_fn *fn, void *user);
	int (*each_destination)(struct datapath *dp, datapath_destination_fn *fn, void *user);
	/* Put a saved record back, before the first attach. -EEXIST when the tuple has one. */
	int (*restore)(struct datapath *dp, const struct tuple *t, const struct record *r);
	int (*restore_destination)(struct datapath *dp, const struct destination_key *k,
				   const struct destination *d);
	/* Note the connection's tuple before NAT. -ENOENT when the tuple has no record. */
	int (*set_inside)(struct datapath *dp, const struct tuple *t, const struct inside *inside);
	/* Add the datapath's counters to COUNTERS[COUNTER_COUNT]. */
	int (*counters)(struct datapath *dp, uint64_t *counters);
	/* Forget everything: hooks on all links, records, pins. */
	int (*cleanup)(const struct datapath_config *cfg);
	/*
	 * Another datapath takes over from a run with this one, however that ended: no new
	 * connection is shifted here any more. Returns 1 when open connections still are, 0 when
	 * nothing is left, or -errno. NULL where nothing can be left.
	 */
	int (*retire)(const struct datapath_config *cfg);
};

/* Returns the number of open shifted connections, by a datapath's COUNTERS. */
static inline uint64_t datapath_open_shifts(const uint64_t *counters)
{
	const uint64_t started = counters[COUNTER_SHIFTS_STARTED],
		       ended = counters[COUNTER_SHIFTS_ENDED];

	return started > ended ? started - ended : 0;
}
