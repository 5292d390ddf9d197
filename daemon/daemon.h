/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon.h - the parts of a running daemon. Only main.c and daemon_*.c include it. Functions that
 * return int return 0 or -errno, unless they say otherwise, and have logged the reason.
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
	uint64_t started_ms; /* of the boot clock */

	sd_event *event;
	const struct datapath_ops *ops;
	struct datapath *datapath;
	struct rules *rules;
	uint32_t queues; /* of each kind */
	struct attachments attachments;
	struct queue_worker *worker[GUARDIAN_QUEUES_MAX];
	struct conntrack *worker_conntrack[GUARDIAN_QUEUES_MAX]; /* a socket for each, or NULL */
	size_t n_workers;
	struct guardian_heartbeats *heartbeats;
	pid_t guardian;
	struct kept_queues kept; /* of the previous daemon, until the workers take them */
	pid_t gap_guardian;	 /* answers for KEPT meanwhile */
	bool keeps;		 /* the service manager keeps our queues for the next daemon */
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

/* Lock the runtime directory, which one daemon may use at a time. -EBUSY when another one does. */
int daemon_take_lock(struct daemon *d);
/*
 * Start all parts. The error says whether another try may help: see exit_code() in main.c. After an
 * error call daemon_stop(), too.
 */
int daemon_start(struct daemon *d);

/* daemon_stop.c */

/*
 * Do the rules have to stay, because SHIFTED connections are open that only the daemon translates?
 * If so, a line in the log says it. With the rules their segments wait for the next daemon, as TCP
 * sends them again; without the rules they would leave unshifted, and the connections would break.
 */
bool daemon_must_keep_rules(uint64_t shifted);
/* Stop whatever was started, also after a start that failed half way. */
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
 * Bind the queues, and start their threads and the guardian. This forks: no thread that holds a
 * lock may run yet.
 */
int daemon_start_workers(struct daemon *d);
/*
 * End the threads and the guardian. If the service manager keeps the queues, packets that wait in
 * them stay for the next daemon; else they get their verdicts, and the queues are unbound.
 */
void daemon_stop_workers(struct daemon *d);
/* False when a queue's thread has not run for seconds. */
bool daemon_workers_are_alive(const struct daemon *d);

/* daemon_gap.c: from a daemon's end to the next one's start */

/*
 * Take the queues that the previous daemon left to the service manager. Their packets wait until
 * the workers start, but no longer than a guardian lets them. This forks.
 */
int daemon_receive_queues(struct daemon *d);
/* End the guardian of the queues that were taken: the workers are about to answer for them. */
void daemon_end_gap(struct daemon *d);
/* Let the service manager keep the workers' queues, or no longer, as the configuration says. */
void daemon_keep_queues(struct daemon *d);
/* After a failed start: accept the packets that wait, and let the service manager keep no queue. */
void daemon_give_up_gap(struct daemon *d);

/* daemon_events.c */

/*
 * Watch interfaces, and answer the service manager's watchdog. To be called before interfaces are
 * read, so that no change is missed.
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
 * How many queues of each kind: as many as the configuration says, or one for each processor. But
 * only one where the administrator's own rules name it, and where the datapath queues segments,
 * whose order matters.
 */
uint32_t daemon_count_queues(const struct config *c, const struct datapath_ops *ops);
/*
 * Tell every part the policy and the limits of the configuration, at the start and after a reload.
 * At the end ACTIVE is false: then no new connection is decided.
 */
int daemon_apply_policy(struct daemon *d, bool active);

/* daemon_reload.c */

/*
 * Read the configuration again, and tell the service manager when it begins and ends. LISTENER, if
 * not NULL, gets the same messages as the log. Returns 0; -EINVAL when the configuration is not
 * valid, and the old one stays; -EIO when the datapath refused it.
 */
int daemon_reload(struct daemon *d, const struct reload_listener *listener);
/* For config_load(): log a line about the configuration at LEVEL. */
void daemon_log_config(void *user, int level, const char *line);

/* daemon_gateway.c: answers to the varlink interface; USER is the struct daemon. */
extern const struct gateway_source daemon_gateway_source;
