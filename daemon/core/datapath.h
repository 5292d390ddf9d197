/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * datapath.h - what applies shifts to packets, and keeps the records. One implementation per file:
 * datapath_bpf.c, datapath_queue.c. The rest of the daemon never asks which one it is.
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
	const char *runtime_dir; /* queue: where the shared mapping is */
	uint32_t records;	 /* bound of the table */
	uint32_t hold_ms;
	enum policy policy;
	struct tsclock clock; /* policy unify */
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

/* Does conntrack still know the connection? 1 yes, 0 no, -errno when it cannot be asked. */
typedef int datapath_alive_fn(void *user, const struct tuple *t);

/* A packet that a queue hands to a datapath which applies shifts by itself. */
struct datapath_packet {
	uint8_t *data; /* starts with the network header; rewritten in place */
	size_t len;
	bool outbound;		     /* to the server, else from it */
	bool partial;		     /* its checksum is: a changed packet needs a complete one */
	bool cut;		     /* DATA is not all of it: it cannot be rewritten */
	bool unmarked;		     /* not a SYN, and of a connection without shift */
	bool untranslated;	     /* conntrack says that no NAT changed its source */
	const struct inside *inside; /* NULL when it is not known */
	uint64_t empty_ns; /* boot clock: then the queue was empty, so the packet came later */
	datapath_alive_fn *alive; /* NULL when conntrack cannot be asked */
	void *alive_user;

	/* answers of apply() */
	bool syn;     /* it is an outbound SYN */
	bool shifted; /* its connection has a shift */
	bool drop;    /* which cannot be applied; TCP sends it again, in smaller pieces */
	/* it is no SYN, but conntrack does not know any more that its connection has one */
	bool adopted;
	bool has_ticket; /* it was decided on, and decided() wants to know of the verdict */
	uint32_t ticket;
};

/*
 * All return 0 or -errno unless they say otherwise. lookup, set_clock, propose, apply and decided
 * are called by workers, at any time and from several threads; the rest by the main loop alone.
 */
struct datapath_ops {
	const char *name;
	int (*open)(struct datapath **ret, const struct datapath_config *cfg,
		    const char **ret_error);
	void (*close)(struct datapath *dp);

	/*
	 * 1 when the table is one that an earlier run left, which then used RET_CLOCK; 0 when it is
	 * new.
	 */
	int (*live)(struct datapath *dp, struct tsclock *ret_clock);
	/*
	 * Settings that a reload changes: policy, clock, hold, and whether new connections are
	 * decided at all.
	 */
	int (*configure)(struct datapath *dp, const struct datapath_config *cfg, bool active);

	int (*attach)(struct datapath *dp, const struct datapath_link *link,
		      const char **ret_error);
	/* Remove our hooks from the link, and its qdisc if it is ours and empty. */
	int (*detach)(struct datapath *dp, const struct datapath_link *link);
	/* 1 when our hooks are on the link, else 0. */
	int (*attached)(struct datapath *dp, const struct datapath_link *link);
	int (*set_externals)(struct datapath *dp, const struct datapath_external *ext, size_t n);

	/* -ENOENT when the tuple has no record. */
	int (*lookup)(struct datapath *dp, const struct tuple *t, struct record *ret);
	/* The clock's part of a decision about the tuple; IN has the time. */
	void (*set_clock)(struct datapath *dp, const struct tuple *t, struct decide_input *in);
	/*
	 * Install the decision about the SYN with this ISN, before its verdict. INSIDE may be NULL.
	 */
	int (*propose)(struct datapath *dp, const struct tuple *t, uint32_t isn, uint32_t shift,
		       const struct inside *inside, uint32_t now_ms);

	/*
	 * Where no program in the kernel applies shifts, instead of lookup and propose; else NULL.
	 * Decide on a SYN, apply its connection's shift to any other segment, and keep the record.
	 * Returns 1 when DATA was changed, 0 when the packet leaves as it came.
	 */
	int (*apply)(struct datapath *dp, struct datapath_packet *p);
	/* The verdict on a packet with a ticket was sent. */
	void (*decided)(struct datapath *dp, const struct datapath_packet *p);

	/*
	 * Look at the next records, at least MAX if there are as many, and remove expired ones; of
	 * shifted connections that fell silent only those that ALIVE, if it is not NULL, does not
	 * know any more. Reads the clock itself, after each record: a time from before would make
	 * what was used since look like weeks ago.
	 */
	int (*sweep)(struct datapath *dp, uint32_t hold_ms, uint32_t max, datapath_alive_fn *alive,
		     void *user, struct datapath_sweep *ret);
	/* From any thread; ends early with FN's result if that is not 0. */
	int (*each)(struct datapath *dp, datapath_each_fn *fn, void *user);
	int (*each_destination)(struct datapath *dp, datapath_destination_fn *fn, void *user);
	/* Put back what was saved; not over what is there (-EEXIST). Before attach alone. */
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
	 * connection is shifted here any more. Returns 1 when live connections still are, 0 when
	 * nothing is left, or -errno. NULL where nothing can be left.
	 */
	int (*retire)(const struct datapath_config *cfg);
};

/* Connections that have a shift now, by a datapath's COUNTERS. */
static inline uint64_t datapath_open_shifts(const uint64_t *counters)
{
	const uint64_t started = counters[COUNTER_SHIFTS_STARTED],
		       ended = counters[COUNTER_SHIFTS_ENDED];

	return started > ended ? started - ended : 0;
}
