/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon.h - the parts of a running daemon. Only main.c, which wires them, and report.c, which tells about them, include it.
 */
#pragma once

#include <systemd/sd-event.h>

#include "attachments.h"
#include "config.h"
#include "conntrack.h"
#include "datapath.h"
#include "gateway.h"
#include "guardian.h"
#include "health.h"
#include "queue_worker.h"
#include "rules.h"
#include "saver.h"
#include "sweeper.h"


struct daemon {
	int argc;
	char **argv;
	struct config cfg;
	uint64_t started_ms; /* boot clock */

	sd_event *event;
	const struct datapath_ops *ops;
	struct datapath *datapath;
	struct rules *rules;
	uint32_t queues; /* of each kind */
	struct attachments attachments;
	struct queue_policy queue_policy;
	struct queue_worker *worker[GUARDIAN_QUEUES_MAX];
	struct conntrack *worker_conntrack[GUARDIAN_QUEUES_MAX]; /* of each worker's own, or NULL */
	size_t n_workers;
	struct guardian_heartbeats *heartbeats;
	pid_t guardian;
	struct gateway *gateway;

	struct tsclock clock;
	struct conntrack *conntrack;
	struct sweeper *sweeper;
	struct saver *saver;
	struct health *health;

	sd_event_source *links_event, *links_timer, *mappings_event, *watchdog_timer;
	int lock_fd, links_fd;
	uint64_t event_overruns; /* conntrack events that were lost */
};

/* What the varlink interface asks for (report.c); USER is the struct daemon. */
extern const struct gateway_source daemon_report;
