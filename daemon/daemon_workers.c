// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * daemon_workers.c - starts and ends the queues' threads, and their guardian.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "datapath_bpf/datapath_bpf.h"
#include "datapath_queue/datapath_queue.h"
#include "base/log.h"
#include "queue/queue_netlink.h"
#include "base/util.h"

#define WORKER_STUCK_MS 5000

static void say_why_queue_failed(unsigned int num, int r)
{
	switch (r) {
	case -EBUSY:
		log_err("queue %u is taken by another program: see "
			"/proc/net/netfilter/nfnetlink_queue, "
			"choose another with --queue-num",
			num);
		break;
	case -EOPNOTSUPP:
		log_err("the kernel has no nfnetlink_queue: modprobe nfnetlink_queue, or use "
			"--decide kernel");
		break;
	default:
		log_err("queue %u: %s", num, strerror(-r));
	}
}

int daemon_check_permission(struct daemon *d)
{
	(void)d;
	if (queue_permission() != -EPERM)
		return 0;
	log_err("no permission to change netfilter (CAP_NET_ADMIN): start tsnatd as root, or by "
		"its systemd unit");
	return -EPERM;
}

int daemon_check_queues(struct daemon *d)
{
	/*
	 * Where "auto" falls back to the queue datapath later, the number of queues differs;
	 * binding them finds those that are taken.
	 */
	const struct datapath_ops *ops = d->cfg.datapath == CONFIG_DATAPATH_QUEUE ? &datapath_queue
										  : &datapath_bpf;
	const uint32_t n = daemon_count_queues(&d->cfg, ops) * (ops->queues_segments ? 3 : 1);

	if (d->cfg.decide != CONFIG_DECIDE_QUEUE)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t num = (uint16_t)(d->cfg.queue_num + i);
		int r = kept_queues_has(&d->kept, num) ? 0 : queue_probe(num);

		if (r < 0) {
			say_why_queue_failed(num, r);
			return r;
		}
	}
	return 0;
}

static int conntrack_knows_it(void *user, const struct tuple *t)
{
	return conntrack_knows(user, t);
}

static int bind_queues(struct daemon *d, enum rules_queue which)
{
	const struct rules_config rules = daemon_rules_config(d);

	for (uint32_t i = 0; i < d->queues; i++) {
		struct conntrack **ct = &d->worker_conntrack[d->n_workers];
		const bool asks = which == RULES_SYNS && rules.segments && conntrack_new(ct) == 0;
		const struct queue_worker_config cfg = {
			.knows = asks ? conntrack_knows_it : NULL,
			.knows_user = *ct,
			.num = (uint16_t)(rules_first_queue(&rules, which) + i),
			.index = (uint16_t)i,
			.total = (uint16_t)d->queues,
			.kind = which == RULES_SYNS ? QUEUE_SYNS : QUEUE_SEGMENTS,
			.rewrites = rules.segments,
			.mark_mask = d->cfg.mark_mask,
			.repeat = rules.segments && d->cfg.rules == CONFIG_RULES_NONE,
			.kept = which == RULES_SYNS ? &d->kept : NULL,
			.ops = d->ops,
			.datapath = d->datapath,
		};
		int r = queue_worker_new(&d->worker[d->n_workers], &cfg);

		if (r < 0) {
			say_why_queue_failed(cfg.num, r);
			return r;
		}
		d->n_workers++;
	}
	return 0;
}

static int bind_segment_queues(struct daemon *d)
{
	int r;

	if (!d->ops->queues_segments)
		return 0;
	r = bind_queues(d, RULES_SEGMENTS_OUT);
	if (r < 0)
		return r;
	return bind_queues(d, RULES_SEGMENTS_IN);
}

static int start_guardian(struct daemon *d, size_t guarded)
{
	struct guardian_queue queues[GUARDIAN_QUEUES_MAX];

	for (size_t i = 0; i < guarded; i++)
		queues[i] = queue_worker_queue(d->worker[i]);
	if (!d->heartbeats)
		d->heartbeats = guardian_heartbeats_new();
	if (!d->heartbeats)
		return -ENOMEM;
	d->guardian = guardian_start(queues, guarded, d->heartbeats, 0);
	if (d->guardian < 0)
		log_warn("no guardian process (%s): SYNs wait if the daemon hangs",
			 strerror(-d->guardian));
	return 0;
}

static int start_threads(struct daemon *d)
{
	for (size_t i = 0; i < d->n_workers; i++) {
		int r = queue_worker_start(d->worker[i], &d->heartbeats->beat_ms[i]);

		if (r < 0) {
			log_err("queue %u: its threads cannot be started: %s",
				queue_worker_queue(d->worker[i]).num, strerror(-r));
			return r;
		}
	}
	return 0;
}

int daemon_start_workers(struct daemon *d)
{
	size_t guarded;
	int r;

	daemon_end_gap(d);
	if (d->cfg.decide == CONFIG_DECIDE_KERNEL) {
		kept_queues_give_up(&d->kept);
		return 0;
	}
	r = bind_queues(d, RULES_SYNS);
	if (r < 0)
		return r;
	/* The guardian accepts SYNs only: a segment that it accepted would leave without shift. */
	guarded = d->n_workers;
	r = bind_segment_queues(d);
	if (r < 0)
		return r;
	kept_queues_give_up(&d->kept);
	r = start_guardian(d, guarded);
	if (r < 0)
		return r;
	return start_threads(d);
}

void daemon_stop_workers(struct daemon *d)
{
	for (size_t i = 0; i < d->n_workers; i++)
		queue_worker_stop(d->worker[i], !d->keeps);
	for (size_t i = 0; i < ARRAY_SIZE(d->worker_conntrack); i++)
		conntrack_free(d->worker_conntrack[i]);
	guardian_stop(d->guardian);
}

bool daemon_workers_are_alive(const struct daemon *d)
{
	for (size_t i = 0; i < d->n_workers; i++)
		if (boot_ms() - atomic_load(&d->heartbeats->beat_ms[i]) > WORKER_STUCK_MS)
			return false;
	return true;
}
