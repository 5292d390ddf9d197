/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * datapath_queue_parts.h - the structs that the files of the datapath without BPF share. No other
 * file includes it.
 */
#pragma once

#include <pthread.h>
#include <string.h>

#include "core/datapath.h"
#include "records.h"

#define DATAPATH_EXTERNALS_MAX 4096

struct counting {
	struct records *records;
};

static inline void count(struct counting *to, __u32 which)
{
	records_count(to->records, which, 1);
}

#include "core/connection.h"
#include "core/succession.h"

struct datapath {
	struct records *records;
	/*
	 * one for each record, by its slot and under its lock; owned. They need not outlive the
	 * process: packets that waited in a queue are gone with its reader
	 */
	struct succession *successions;
	struct counting counting;
	bool inherited; /* the records are those of an earlier run */
	bool foreign_rules;
	uint32_t sweep_cursor;

	/*
	 * Held from a decision until its verdict was sent, under policy unify: a server may compare
	 * timestamps across tuples, so SYNs must leave in the order in which they were decided.
	 */
	pthread_mutex_t order_lock;
	/* of the members below: the main loop changes them under running threads */
	pthread_mutex_t lock;
	struct decide_settings settings;
	struct datapath_external externals[DATAPATH_EXTERNALS_MAX];
	size_t n_externals;
	bool told_side; /* the log says on which side of NAT the SYNs are queued */
	bool told_refusal;
};

/*
 * The tuple whose clock a connection follows. Where rules may queue before NAT the external address
 * is not known; so it does not count, on either side of NAT.
 */
static inline void clock_tuple(const struct datapath *dp, const struct tuple *t, struct tuple *ret)
{
	*ret = *t;
	if (dp->foreign_rules)
		memset(ret->src, 0, sizeof(ret->src));
}

/* A queued packet on its way to its verdict. */
struct handled {
	const struct datapath_packet *packet;
	const struct wire_packet *pkt; /* its parsed headers */
	const struct decide_settings *settings;
	struct datapath_verdict *verdict;
	uint32_t now; /* boot clock, ms */
};

/* Decide on a SYN, or apply its connection's shift to another segment. */
void datapath_queue_syn(struct datapath *dp, const struct handled *h);
void datapath_queue_segment(struct datapath *dp, const struct handled *h);

/* As in datapath_ops. */
int datapath_queue_sweep(struct datapath *dp, uint32_t hold_ms, uint32_t max,
			 datapath_knows_fn *knows, void *user, struct datapath_sweep *ret);
int datapath_queue_each(struct datapath *dp, datapath_each_fn *fn, void *user);
int datapath_queue_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user);
int datapath_queue_restore(struct datapath *dp, const struct tuple *t, const struct record *r);
int datapath_queue_restore_destination(struct datapath *dp, const struct destination_key *k,
				       const struct destination *d);
int datapath_queue_set_inside(struct datapath *dp, const struct tuple *t,
			      const struct inside *inside);
