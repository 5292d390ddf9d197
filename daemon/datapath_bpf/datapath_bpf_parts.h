/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * datapath_bpf_parts.h - the struct that the files of the bpf datapath share. No other file
 * includes it.
 */
#pragma once

#include <pthread.h>

#include "core/datapath.h"
#include "tsnat.skel.h"

struct batch;

struct datapath {
	struct tsnat_bpf *skel;
	struct tsnat_bpf *l3; /* NULL until the first device without Ethernet header */
	int records_fd, proposals_fd, destinations_fd, control_fd;
	int cpus;
	bool inherited;	     /* an earlier run made the maps */
	struct batch *sweep; /* the place where the sweep goes on; owned */

	pthread_mutex_t lock; /* of settings: a reload changes them under running threads */
	struct decide_settings settings;
};

/* As in datapath_ops. */
void datapath_bpf_handle(struct datapath *dp, const struct datapath_packet *p,
			 struct datapath_verdict *ret);
int datapath_bpf_sweep(struct datapath *dp, uint32_t hold_ms, uint32_t max,
		       datapath_knows_fn *knows, void *user, struct datapath_sweep *ret);
int datapath_bpf_each(struct datapath *dp, datapath_each_fn *fn, void *user);
int datapath_bpf_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user);
int datapath_bpf_restore(struct datapath *dp, const struct tuple *t, const struct record *r);
int datapath_bpf_restore_destination(struct datapath *dp, const struct destination_key *k,
				     const struct destination *d);
int datapath_bpf_set_inside(struct datapath *dp, const struct tuple *t,
			    const struct inside *inside);

/* The place where a sweep goes on, or NULL without memory. The caller ends it with free(). */
struct batch *datapath_bpf_sweep_new(void);
