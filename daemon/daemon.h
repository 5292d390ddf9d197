/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon.h - the parts of a running daemon. Only main.c and daemon_*.c include it. Functions that
 * return int return 0 or -errno, and have said why.
 */
#pragma once

#include <systemd/sd-event.h>

#include "attachments.h"
#include "config/config.h"
#include "net/conntrack.h"
#include "core/datapath.h"
#include "varlink/gateway.h"
#include "queue/guardian.h"
#include "health.h"
#include "queue/kept_queues.h"
#include "queue/queue_worker.h"
#include "rules/rules.h"
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
	struct queue_worker *worker[GUARDIAN_QUEUES_MAX];
	struct conntrack *worker_conntrack[GUARDIAN_QUEUES_MAX]; /* of each worker's own, or NULL */
	size_t n_workers;
	struct guardian_heartbeats *heartbeats;
	pid_t guardian;
	struct kept_queues kept; /* from the daemon before, until the workers take them */
	pid_t gap_guardian;	 /* of those */
	bool keeps;		 /* the service manager has our queues */
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

/* daemon_start.c */

/* Only one daemon has the runtime directory. -EBUSY: another one has. */
int daemon_take_lock(struct daemon *d);
/* What it returns says whether another try may help: exit_code() in main.c. */
int daemon_start(struct daemon *d);

/* daemon_stop.c */

/*
 * Whether there are SHIFTED connections, which is then said in the log. Without program in the
 * kernel nobody shifts their segments now. While the rules stay, those wait for the next start (TCP
 * sends them again); without rules they would leave unshifted, and break.
 */
bool daemon_must_keep_rules(uint64_t shifted);
/* Also after a start that failed half way. */
void daemon_stop(struct daemon *d);

/* daemon_workers.c */

/* -EPERM when this process may not configure netfilter. */
int daemon_check_permission(struct daemon *d);
/*
 * Are the queues free? Changes nothing. -EBUSY when another program has one, -EOPNOTSUPP when the
 * kernel has no queues.
 */
int daemon_check_queues(struct daemon *d);
/*
 * Bind the queues and start their threads and the guardian. Forks: before any thread that holds a
 * lock.
 */
int daemon_start_workers(struct daemon *d);
/*
 * End them. If the service manager keeps the queues, what waits in them is the next daemon's; else
 * everything gets its verdict, and they are unbound.
 */
void daemon_stop_workers(struct daemon *d);
bool daemon_workers_are_alive(const struct daemon *d);

/* daemon_gap.c: the time from a daemon's end to the next one's start */

/*
 * Take what the daemon before left to the service manager. It waits, though not for ever, until the
 * workers start. Forks.
 */
int daemon_receive_queues(struct daemon *d);
/* The workers are about to take over the queues: nobody else must answer for them. */
void daemon_end_gap(struct daemon *d);
/*
 * Let the service manager keep the queues of the running workers, or not, as the configuration
 * says.
 */
void daemon_keep_queues(struct daemon *d);
/* The start has failed: nothing waits any longer. */
void daemon_give_up_gap(struct daemon *d);

/* daemon_events.c */

/*
 * Watch interfaces and the service manager's watchdog. Before interfaces are read, so that no
 * change is missed.
 */
int daemon_add_events(struct daemon *d);
/*
 * Learn inside tuples from conntrack's events, unless queued packets bring them. Always returns 0:
 * without events inside tuples are not known, and nothing depends on them.
 */
int daemon_start_mappings(struct daemon *d);

/* daemon_config.c */

struct datapath_config daemon_datapath_config(const struct config *c);
struct rules_config daemon_rules_config(const struct daemon *d);
/*
 * A queue of each kind for each processor, unless the configuration says how many. Rules of others
 * name one queue, and where packets are rewritten here their order matters.
 */
uint32_t daemon_count_queues(const struct config *c, const struct datapath_ops *ops);
/*
 * Tell every part of the daemon its policy and limits: at the start, after a reload, and, not
 * ACTIVE, at the end, when no new connection is to be decided.
 */
int daemon_apply_policy(struct daemon *d, bool active);

/* daemon_reload.c */

/*
 * Read the configuration again, and tell the service manager meanwhile. LISTENER (or NULL) hears
 * what the log does. Returns 0, -EINVAL when it is not valid and the old one stays, -EIO when the
 * datapath did not take it.
 */
int daemon_reload(struct daemon *d, const struct reload_listener *listener);
/* For config_load(). */
void daemon_log_config(void *user, int level, const char *line);

/* daemon_gateway.c: answers to the varlink interface; USER is the struct daemon. */
extern const struct gateway_source daemon_gateway_source;
