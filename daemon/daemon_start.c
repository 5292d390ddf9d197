// SPDX-License-Identifier: GPL-2.0-or-later
/* daemon_start.c - starts the parts of a daemon, in order. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "daemon.h"
#include "datapath_bpf/datapath_bpf.h"
#include "datapath_queue/datapath_queue.h"
#include "base/log.h"
#include "state.h"
#include "base/util.h"

/*
 * Translate an error of the kernel for exit_code() in main.c. Errors that may pass stay as they
 * are: the next try may find more memory, or get the answer that was lost. All others become
 * -EOPNOTSUPP, because the kernel will refuse the next try, too.
 */
static int refused(int r)
{
	switch (-r) {
	case EAGAIN:
	case EINTR:
	case EIO:
	case EMFILE:
	case ENFILE:
	case ENODEV: /* an interface was removed meanwhile */
	case ENOBUFS:
	case ENOMEM:
	case ENOSPC:
	case ETIMEDOUT:
		return r;
	}
	return -EOPNOTSUPP;
}

static int make_directory(const char *path, mode_t mode)
{
	int r;

	if (mkdir(path, mode) == 0 || errno == EEXIST)
		return 0;
	r = -errno;
	log_err("%s: %s", path, strerror(-r));
	return r;
}

int daemon_take_lock(struct daemon *d)
{
	char path[CONFIG_PATH_MAX + 16];
	int r = make_directory(d->cfg.runtime_dir, 0755);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/lock", d->cfg.runtime_dir);
	d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (d->lock_fd < 0) {
		r = -errno;
		log_err("%s: %s", path, strerror(-r));
		return r;
	}
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		log_err("%s is locked: tsnatd is already running (give a second one its own "
			"--runtime-dir, --pin-dir and --queue-num)",
			path);
		return -EBUSY;
	}
	return 0;
}

static int open_datapath(struct daemon *d, const struct datapath_ops *ops, const char **ret_error)
{
	const struct datapath_config cfg = daemon_datapath_config(&d->cfg);
	int r;

	*ret_error = "cannot be started";
	r = ops->open(&d->datapath, &cfg, ret_error);
	if (r >= 0)
		d->ops = ops;
	return r;
}

/*
 * BPF programs of an earlier run that was killed still decide on SYNs. A connection that they shift
 * must not be shifted a second time by the queue datapath.
 */
static void retire_other(const struct daemon *d)
{
	const struct datapath_config cfg = daemon_datapath_config(&d->cfg);
	int r = d->ops == &datapath_bpf ? 0 : datapath_bpf.retire(&cfg);

	if (r == 1)
		log_notice("an earlier run's BPF programs go on for its open connections, and "
			   "decide on no new ones");
	else if (r < 0)
		log_warn("an earlier run's BPF programs cannot be removed: %s", strerror(-r));
}

static int start_datapath(struct daemon *d)
{
	const struct datapath_ops *ops = d->cfg.datapath == CONFIG_DATAPATH_QUEUE ? &datapath_queue
										  : &datapath_bpf;
	const char *error;
	int r = open_datapath(d, ops, &error);

	/* decide = "kernel" has nothing to fall back to, because it needs the programs. */
	if (r < 0 && d->cfg.datapath == CONFIG_DATAPATH_AUTO &&
	    d->cfg.decide == CONFIG_DECIDE_QUEUE) {
		log_notice("datapath bpf: %s (%s): using the datapath queue", error, strerror(-r));
		ops = &datapath_queue;
		r = open_datapath(d, ops, &error);
	}
	if (r < 0) {
		log_err("datapath %s: %s (%s)", ops->name, error, strerror(-r));
		return refused(r);
	}
	d->queues = daemon_count_queues(&d->cfg, d->ops);
	retire_other(d);
	return 0;
}

/* Load the state file, because no records of an earlier run are left, as after a reboot. */
static void restore(struct daemon *d)
{
	uint64_t now = boot_ms();
	struct state_loaded loaded;
	int r = state_load(d->cfg.state_dir, d->ops, d->datapath, now, &loaded);

	if (loaded.unusable && loaded.aside_error < 0)
		log_warn("%s/state cannot be used (%s), nor set aside as state.bad (%s): it will "
			 "be replaced",
			 d->cfg.state_dir, loaded.unusable, strerror(-loaded.aside_error));
	else if (loaded.unusable)
		log_warn("%s/state cannot be used (%s): set aside as state.bad", d->cfg.state_dir,
			 loaded.unusable);
	if (r < 0 && r != -ENOENT)
		log_warn("%s/state.new cannot be read: %s", d->cfg.state_dir, strerror(-r));
	if (r < 0)
		return;
	d->clock.base_ms = loaded.clock_ms - (uint32_t)now;
	log_info("restored %u records and %u destinations", loaded.records, loaded.destinations);
}

/*
 * Clocks never go back. If an earlier run's records are still there, its clock goes on. Else the
 * saved clock does, set forward beyond every time that it can have shown.
 */
static int start_clocks(struct daemon *d)
{
	struct tsclock inherited;
	int r = make_directory(d->cfg.state_dir, 0700);

	if (r < 0)
		return r;
	r = state_secret(d->cfg.state_dir, &d->clock.key);
	if (r < 0) {
		log_err("%s/secret: %s", d->cfg.state_dir, strerror(-r));
		return r;
	}
	if (d->ops->inherited(d->datapath, &inherited) == 1)
		d->clock.base_ms = inherited.base_ms;
	else
		restore(d);
	r = saver_start(&d->saver, d->cfg.state_dir, d->ops, d->datapath, &d->clock);
	if (r < 0)
		log_err("the thread that saves the state cannot be started: %s", strerror(-r));
	return r;
}

static int start_attachments(struct daemon *d)
{
	const char *link, *error;
	int r;

	d->attachments = (struct attachments){ .ops = d->ops, .datapath = d->datapath };
	r = attachments_update(&d->attachments, &d->cfg, &link, &error);
	if (r < 0) {
		log_err("%s: %s (%s)", link, error, strerror(-r));
		return refused(r);
	}
	if (!d->attachments.n)
		log_warn("no interface: none is named and there is no default route; waiting for "
			 "one");
	for (size_t i = 0; i < d->attachments.n; i++)
		if (!d->attachments.link[i].ifindex)
			log_warn("%s: there is no such interface; waiting for it",
				 d->attachments.link[i].name);
	return 0;
}

static int rules_refused(int r, const char *error)
{
	log_err("nft rules: %s%s%s", error ? error : "", error && *error ? ": " : "", strerror(-r));
	return refused(r);
}

static int start_rules(struct daemon *d)
{
	const struct rules_config cfg = daemon_rules_config(d);
	const char *names[CONFIG_INTERFACES_MAX], *error = "";
	int r;

	if (d->cfg.rules == CONFIG_RULES_NONE)
		return 0;
	r = rules_new(&d->rules, &cfg);
	if (r < 0)
		return rules_refused(r, NULL);
	if (d->cfg.decide == CONFIG_DECIDE_KERNEL) {
		/* An earlier run, which decided on queued SYNs, may have left its rules. */
		r = rules_remove(d->rules);
		rules_free(d->rules);
		d->rules = NULL;
		return r;
	}
	r = rules_install(d->rules, names, attachments_names(&d->attachments, names), &error);
	if (r < 0)
		return rules_refused(r, error);
	d->attachments.rules = d->rules;
	return 0;
}

static int on_signal(sd_event_source *s, const struct signalfd_siginfo *si, void *user)
{
	struct daemon *d = user;

	(void)s;
	if (si->ssi_signo != SIGHUP)
		return sd_event_exit(d->event, 0);
	daemon_reload(d, NULL);
	return 0;
}

static int start_sweeper(struct daemon *d)
{
	struct sweeper_config cfg = {
		.ops = d->ops,
		.datapath = d->datapath,
		.limit = d->cfg.records,
		.hold_ms = d->cfg.hold * 1000,
	};
	int r = conntrack_new(&d->conntrack);

	if (r < 0)
		log_warn("conntrack cannot be asked (%s): silent shifted connections keep their "
			 "records for days",
			 strerror(-r));
	cfg.conntrack = d->conntrack;
	r = sweeper_start(&d->sweeper, d->event, &cfg);
	if (r < 0) {
		log_err("the sweeper cannot be started: %s", strerror(-r));
		return r;
	}
	/* Connections that were opened before this start may have records without mapping. */
	if (d->conntrack)
		sweeper_resync_mappings(d->sweeper);
	return 0;
}

static int all_counters(void *user, uint64_t *counters)
{
	return daemon_gateway_source.statistics(user, counters);
}

/* Returns 1 when the rules were missing and are back, 0 when they were there, or -errno. */
static int restore_rules(void *user)
{
	struct daemon *d = user;
	const char *names[CONFIG_INTERFACES_MAX], *error;
	int r = rules_present(d->rules);

	if (r != 0)
		return r < 0 ? r : 0;
	r = rules_install(d->rules, names, attachments_names(&d->attachments, names), &error);
	return r < 0 ? r : 1;
}

static int start_health(struct daemon *d)
{
	static const struct health_ops ops = { .counters = all_counters,
					       .restore_rules = restore_rules };
	int r = health_start(&d->health, d->event, d->rules != NULL, !d->ops->queues_segments, &ops,
			     d);

	if (r < 0)
		log_err("the health checks cannot be started: %s", strerror(-r));
	return r;
}

static int start_gateway(struct daemon *d)
{
	char path[CONFIG_PATH_MAX + 32];
	int r;

	snprintf(path, sizeof(path), "%s/io.tsnatd.Gateway", d->cfg.runtime_dir);
	r = gateway_new(&d->gateway, d->event, path, &daemon_gateway_source, d);
	if (r < 0)
		log_err("%s: %s", path, strerror(-r));
	return r;
}

static int take_signals(struct daemon *d)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	sigset_t set;

	if (sd_event_default(&d->event) < 0)
		return -EINVAL;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -EINVAL;
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		int r = sd_event_add_signal(d->event, NULL, signals[i], on_signal, d);

		if (r < 0)
			return r;
	}
	return 0;
}

static int apply_policy(struct daemon *d)
{
	return daemon_apply_policy(d, true);
}

typedef int start_step(struct daemon *d);

int daemon_start(struct daemon *d)
{
	static start_step *const steps[] = {
		/* Find the common reasons for a failure before anything is changed. */
		daemon_check_permission,
		daemon_take_lock,
		daemon_receive_queues,
		daemon_check_queues,
		/* Before any thread, which inherits the mask: the main loop alone gets signals. */
		take_signals,
		start_datapath,
		start_clocks,
		/* Programs decide by the policy as soon as they are attached. */
		apply_policy,
		/* Watch interfaces before they are read, so that no change is missed. */
		daemon_add_events,
		start_attachments,
		start_sweeper,
		/*
		 * This forks the guardian. No thread runs yet but the saver's, which holds no lock
		 * that the guardian needs.
		 */
		daemon_start_workers,
		daemon_start_mappings,
		/* Packets bypass a queue that nobody reads: the rules come after the workers. */
		start_rules,
		start_health,
		start_gateway,
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i](d);

		if (r < 0)
			return r;
	}
	return 0;
}
