// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * daemon_gap.c - restart_gap = wait: SYNs between a daemon's end and the next one's start wait in
 * the queues, which the service manager keeps bound meanwhile.
 *
 * SYNs must not wait for a daemon that does not come. Until the next process runs, the service
 * manager decides: when it gives up starting one, it closes the queues. From then on a guardian
 * bounds the wait, and a start that fails ends it.
 */
#include <errno.h>
#include <string.h>

#include "daemon.h"
#include "base/log.h"
#include "base/util.h"

#define GAP_START_MS 10000 /* a start that takes longer counts as hung */

int daemon_receive_queues(struct daemon *d)
{
	struct guardian_queue queues[GUARDIAN_QUEUES_MAX];
	int r = kept_queues_receive(&d->kept);

	if (r < 0)
		log_warn("queues that the service manager kept cannot be taken over: %s",
			 strerror(-r));
	for (size_t i = 0; i < d->kept.n; i++)
		queues[i] = (struct guardian_queue){ .nl = d->kept.queue[i].nl,
						     .num = d->kept.queue[i].num };
	if (!d->kept.n)
		return 0;
	log_info("restart gap: %zu queues, with the SYNs that wait in them, are taken over",
		 d->kept.n);
	d->heartbeats = guardian_heartbeats_new();
	if (!d->heartbeats)
		return -ENOMEM;
	d->gap_guardian = guardian_start(queues, d->kept.n, d->heartbeats, GAP_START_MS);
	return 0;
}

void daemon_end_gap(struct daemon *d)
{
	guardian_stop(d->gap_guardian);
	d->gap_guardian = 0;
}

void daemon_keep_queues(struct daemon *d)
{
	const bool wanted = d->cfg.restart_gap == CONFIG_GAP_WAIT && d->n_workers;
	int r = 0;

	if (wanted && !kept_queues_possible()) {
		log_notice("restart_gap: no service manager that could keep the queues: SYNs of a "
			   "restart pass undecided");
		return;
	}
	for (size_t i = 0; i < d->n_workers && r >= 0 && (wanted || d->keeps); i++)
		r = queue_worker_keep(d->worker[i], wanted);
	if (r < 0)
		log_warn("restart_gap: the service manager cannot be told to keep the queues: %s",
			 strerror(-r));
	d->keeps = wanted && r >= 0;
}

void daemon_give_up_gap(struct daemon *d)
{
	daemon_end_gap(d);
	kept_queues_give_up(&d->kept);
	for (size_t i = 0; i < d->n_workers; i++)
		queue_worker_keep(d->worker[i], false);
	d->keeps = false;
	if (d->n_workers)
		kept_queues_settle();
}
