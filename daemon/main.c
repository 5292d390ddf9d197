// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main.c - construct in order, loop, tear down in reverse. The only file that knows all modules.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "daemon.h"
#include "links.h"
#include "state.h"
#include "log.h"
#include "util.h"

#ifndef VERSION
#define VERSION "unknown"
#endif

#define LINKS_SETTLE_US 20000	 /* a new interface comes as a burst of events */
#define MAPPINGS_US 10000	 /* from one reading of conntrack events to the next */
#define WORKER_STUCK_MS 5000

static struct datapath_config datapath_config(const struct config *c, const struct tsclock *clock)
{
	return (struct datapath_config){
		.pin_dir = c->pin_dir,
		.runtime_dir = c->runtime_dir,
		.records = c->records,
		.hold_ms = c->hold * 1000,
		.policy = c->policy == CONFIG_UNIFY ? POLICY_UNIFY : POLICY_REPAIR,
		.clock = *clock,
		.foreign_rules = c->rules == CONFIG_RULES_NONE,
	};
}

static void report_problem(void *user, const char *line)
{
	(void)user;
	log_err("%s", line);
}

/* ---- parts that are started, in this order ---- */

static int make_directory(const char *path, mode_t mode)
{
	if (mkdir(path, mode) == 0 || errno == EEXIST)
		return 0;
	log_err("%s: %s", path, strerror(errno));
	return -errno;
}

static int take_lock(struct daemon *d)
{
	char path[CONFIG_PATH_MAX + 16];

	if (make_directory(d->cfg.runtime_dir, 0755) < 0)
		return -EIO;
	snprintf(path, sizeof(path), "%s/lock", d->cfg.runtime_dir);
	d->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (d->lock_fd < 0) {
		log_err("%s: %s", path, strerror(errno));
		return -errno;
	}
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		log_err("%s is locked: tsnatd is already running (give a second one its own --runtime-dir, --pin-dir and --queue-num)",
			path);
		return -EBUSY;
	}
	return 0;
}

/*
 * A queue for each processor, unless the configuration says how many. Rules of others name one queue, and where packets are rewritten
 * here their order matters.
 */
static uint32_t count_queues(const struct daemon *d)
{
	const uint32_t room = 65536 - d->cfg.queue_num;
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (d->cfg.queues)
		return d->cfg.queues;
	if (d->cfg.rules == CONFIG_RULES_NONE || d->ops->apply || n < 1)
		return 1;
	if (n > CONFIG_QUEUES_MAX)
		n = CONFIG_QUEUES_MAX;
	return (uint32_t)n < room ? (uint32_t)n : room;
}

static int open_datapath(struct daemon *d, const struct datapath_ops *ops, const char **ret_error)
{
	const struct datapath_config cfg = datapath_config(&d->cfg, &d->clock);
	int r;

	*ret_error = "cannot be started";
	r = ops->open(&d->datapath, &cfg, ret_error);
	if (r >= 0)
		d->ops = ops;
	return r;
}

static int start_datapath(struct daemon *d)
{
	const struct datapath_ops *ops = d->cfg.datapath == CONFIG_DATAPATH_QUEUE ? &datapath_queue : &datapath_bpf;
	const char *error;
	int r = open_datapath(d, ops, &error);

	/* decisions in the kernel need programs there: nothing to fall back to */
	if (r < 0 && d->cfg.datapath == CONFIG_DATAPATH_AUTO && d->cfg.decide == CONFIG_DECIDE_QUEUE) {
		log_notice("datapath bpf: %s (%s): using the datapath queue", error, strerror(-r));
		ops = &datapath_queue;
		r = open_datapath(d, ops, &error);
	}
	if (r < 0)
		log_err("datapath %s: %s (%s)", ops->name, error, strerror(-r));
	else
		d->queues = count_queues(d);
	return r;
}

/* The live table is gone, as after a reboot: what was saved is all there is. */
static void restore(struct daemon *d)
{
	uint64_t now = boot_ms();
	struct state_loaded loaded;
	int r = state_load(d->cfg.state_dir, d->ops, d->datapath, now, &loaded);

	if (loaded.unusable && loaded.aside_error < 0)
		log_warn("%s/state cannot be used (%s), nor set aside as state.bad (%s): it will be replaced", d->cfg.state_dir,
			 loaded.unusable, strerror(-loaded.aside_error));
	else if (loaded.unusable)
		log_warn("%s/state cannot be used (%s): set aside as state.bad", d->cfg.state_dir, loaded.unusable);
	if (r < 0 && r != -ENOENT)
		log_warn("%s/state.new cannot be read: %s", d->cfg.state_dir, strerror(-r));
	if (r < 0)
		return;
	d->clock.base_ms = loaded.clock_ms - (uint32_t)now;
	log_info("restored %u records and %u destinations", loaded.records, loaded.destinations);
}

/* Clocks never go back: the live table's goes on, else the saved one does, ahead of all it can have shown. */
static int start_clocks(struct daemon *d)
{
	struct tsclock live;
	int r = make_directory(d->cfg.state_dir, 0700);

	if (r < 0)
		return r;
	r = state_secret(d->cfg.state_dir, &d->clock.key);
	if (r < 0) {
		log_err("%s/secret: %s", d->cfg.state_dir, strerror(-r));
		return r;
	}
	if (d->ops->live(d->datapath, &live) == 1)
		d->clock.base_ms = live.base_ms;
	else
		restore(d);
	r = saver_start(&d->saver, d->cfg.state_dir, d->ops, d->datapath, &d->clock);
	if (r < 0)
		log_err("cannot start a thread: %s", strerror(-r));
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
		return r;
	}
	if (!d->attachments.n)
		log_warn("no interface: none is named and there is no default route; waiting for one");
	for (size_t i = 0; i < d->attachments.n; i++)
		if (!d->attachments.link[i].ifindex)
			log_warn("%s: there is no such interface; waiting for it", d->attachments.link[i].name);
	return 0;
}

static void say_why_queue_failed(unsigned int num, int r)
{
	switch (r) {
	case -EBUSY:
	case -EPERM:
		log_err("queue %u is taken by another program, or CAP_NET_ADMIN is missing: "
			"see /proc/net/netfilter/nfnetlink_queue, choose another with --queue-num", num);
		break;
	case -EOPNOTSUPP:
		log_err("the kernel has no nfnetlink_queue: modprobe nfnetlink_queue, or use --decide kernel");
		break;
	default:
		log_err("queue %u: %s", num, strerror(-r));
	}
}

static struct rules_config rules_config(const struct daemon *d)
{
	return (struct rules_config){
		.queue_num = (uint16_t)d->cfg.queue_num,
		.queues = (uint16_t)d->queues,
		.segments = d->ops->apply != NULL,
		.mark_mask = d->cfg.mark_mask,
	};
}

static int is_connection_alive(void *user, const struct tuple *t)
{
	return conntrack_knows(user, t);
}

static int bind_queues(struct daemon *d, enum rules_queue which)
{
	const struct rules_config rules = rules_config(d);

	for (uint32_t i = 0; i < d->queues; i++) {
		struct conntrack **ct = &d->worker_conntrack[d->n_workers];
		const bool asks = which == RULES_SYNS && d->ops->apply && conntrack_new(ct) == 0;
		const struct queue_worker_config cfg = {
			.alive = asks ? is_connection_alive : NULL,
			.alive_user = *ct,
			.num = (uint16_t)(rules_first_queue(&rules, which) + i),
			.index = (uint16_t)i,
			.total = (uint16_t)d->queues,
			.kind = which == RULES_SYNS ? QUEUE_SYNS : QUEUE_SEGMENTS,
			.mark_mask = d->cfg.mark_mask,
			.repeat = d->cfg.rules == CONFIG_RULES_NONE,
			.ops = d->ops,
			.datapath = d->datapath,
			.policy = &d->queue_policy,
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

static int start_workers(struct daemon *d)
{
	struct guardian_queue queues[GUARDIAN_QUEUES_MAX];
	size_t guarded;
	int r;

	if (d->cfg.decide == CONFIG_DECIDE_KERNEL)
		return 0;
	r = bind_queues(d, RULES_SYNS);
	if (r < 0)
		return r;
	/* the guardian lets pass what waits: never segments, which would be without their shift */
	guarded = d->n_workers;
	for (size_t i = 0; i < guarded; i++)
		queues[i] = queue_worker_queue(d->worker[i]);
	if (d->ops->apply)
		r = bind_queues(d, RULES_SEGMENTS_OUT);
	if (r >= 0 && d->ops->apply)
		r = bind_queues(d, RULES_SEGMENTS_IN);
	if (r < 0)
		return r;
	d->heartbeats = guardian_heartbeats_new();
	if (!d->heartbeats)
		return -ENOMEM;
	d->guardian = guardian_start(queues, guarded, d->heartbeats);
	if (d->guardian < 0)
		log_warn("no guardian process (%s): SYNs wait if the daemon hangs", strerror(-d->guardian));
	for (size_t i = 0; i < d->n_workers && r >= 0; i++)
		r = queue_worker_start(d->worker[i], &d->heartbeats->alive_ms[i]);
	if (r < 0)
		log_err("cannot start a thread: %s", strerror(-r));
	return r;
}

static int start_rules(struct daemon *d)
{
	const struct rules_config cfg = rules_config(d);
	const char *names[CONFIG_INTERFACES_MAX], *error = "";
	int r;

	if (d->cfg.rules == CONFIG_RULES_NONE)
		return 0;
	r = rules_new(&d->rules, &cfg);
	/* left behind by a run that queued, while this one decides in the kernel */
	if (r >= 0 && d->cfg.decide == CONFIG_DECIDE_KERNEL) {
		r = rules_remove(d->rules);
		rules_free(d->rules);
		d->rules = NULL;
		return r;
	}
	if (r >= 0)
		r = rules_install(d->rules, names, attachments_names(&d->attachments, names), &error);
	if (r < 0) {
		log_err("nft rules: %s%s%s", error ? error : "", error && *error ? ": " : "", strerror(-r));
		return r;
	}
	d->attachments.rules = d->rules;
	return 0;
}

/* ---- events ---- */

static int on_links_settled(sd_event_source *s, uint64_t usec, void *user)
{
	struct daemon *d = user;
	const char *link, *error;
	int r = attachments_update(&d->attachments, &d->cfg, &link, &error);

	(void)s;
	(void)usec;
	if (r == -EINTR) /* interfaces changed while they were read */
		sd_event_source_set_time_relative(d->links_timer, LINKS_SETTLE_US);
	else if (r < 0)
		log_err("%s: %s (%s)", link, error, strerror(-r));
	if (r == -EINTR)
		sd_event_source_set_enabled(d->links_timer, SD_EVENT_ONESHOT);
	return 0;
}

static int on_links(sd_event_source *s, int fd, uint32_t revents, void *user)
{
	struct daemon *d = user;
	int r = links_changed(fd);

	(void)s;
	(void)revents;
	if (r < 0) {
		log_err("interface events: %s", strerror(-r));
		return r;
	}
	if (r == 0)
		return 0;
	sd_event_source_set_time_relative(d->links_timer, LINKS_SETTLE_US);
	sd_event_source_set_enabled(d->links_timer, SD_EVENT_ONESHOT);
	return 0;
}

static void on_mapping(void *user, const struct tuple *t, const struct inside *inside)
{
	struct daemon *d = user;

	/* no record: the SYN has not left yet, or there was no room; the next resync may find it */
	d->ops->set_inside(d->datapath, t, inside);
}

static int on_mappings(sd_event_source *s, int fd, uint32_t revents, void *user)
{
	struct daemon *d = user;
	int r = conntrack_process(d->conntrack);

	(void)s;
	(void)fd;
	(void)revents;
	if (r == 0)
		return 0;
	d->event_overruns++;
	sweeper_resync_mappings(d->sweeper);
	return 0;
}

/* The main loop runs, or it would not be here; a worker that hangs must be ended by the service manager, too. */
static int on_watchdog(sd_event_source *s, uint64_t usec, void *user)
{
	struct daemon *d = user;
	uint64_t period_us;

	(void)usec;
	for (size_t i = 0; i < d->n_workers; i++)
		if (boot_ms() - atomic_load(&d->heartbeats->alive_ms[i]) > WORKER_STUCK_MS) {
			log_err("a queue's thread hangs: leaving it to the watchdog");
			return 0;
		}
	sd_notify(0, "WATCHDOG=1");
	if (sd_watchdog_enabled(0, &period_us) <= 0)
		return 0;
	sd_event_source_set_time_relative(s, period_us / 3);
	return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
}

static int apply_policy(struct daemon *d)
{
	struct datapath_config cfg;

	d->clock.scope = d->cfg.scope == CONFIG_SCOPE_TUPLE ? SCOPE_TUPLE : SCOPE_DESTINATION;
	cfg = datapath_config(&d->cfg, &d->clock);
	atomic_store(&d->queue_policy.hold_ms, cfg.hold_ms);
	atomic_store(&d->queue_policy.policy, cfg.policy);
	log_set_level((int)d->cfg.log_level);
	if (d->sweeper)
		sweeper_set_hold(d->sweeper, cfg.hold_ms);
	if (d->ops->configure(d->datapath, &cfg, true) < 0) {
		log_err("the datapath did not take the policy");
		return -EIO;
	}
	return 0;
}

/* What a running daemon cannot change is named, and stays. */
static void keep_what_needs_restart(struct config *new, const struct config *old)
{
	if (new->datapath != old->datapath || new->decide != old->decide || new->rules != old->rules ||
	    new->queue_num != old->queue_num || new->queues != old->queues || new->records != old->records || new->mark_mask != old->mark_mask ||
	    strcmp(new->state_dir, old->state_dir) != 0 || strcmp(new->runtime_dir, old->runtime_dir) != 0 ||
	    strcmp(new->pin_dir, old->pin_dir) != 0)
		log_warn("reload: datapath, decide, rules, queues, marks, records and directories change with a restart only");
	new->datapath = old->datapath;
	new->decide = old->decide;
	new->rules = old->rules;
	new->queue_num = old->queue_num;
	new->queues = old->queues;
	new->records = old->records;
	new->mark_mask = old->mark_mask;
	memcpy(new->state_dir, old->state_dir, sizeof(new->state_dir));
	memcpy(new->runtime_dir, old->runtime_dir, sizeof(new->runtime_dir));
	memcpy(new->pin_dir, old->pin_dir, sizeof(new->pin_dir));
}

static void reload(struct daemon *d)
{
	enum config_action action;
	struct config new;
	const char *link, *error;
	int r;

	if (config_load(&new, &action, d->argc, d->argv, report_problem, NULL) < 0) {
		log_err("reload: the configuration is not valid; the old one stays");
		return;
	}
	keep_what_needs_restart(&new, &d->cfg);
	d->cfg = new;
	apply_policy(d);
	r = attachments_update(&d->attachments, &d->cfg, &link, &error);
	if (r < 0)
		log_err("reload: %s: %s (%s)", link, error, strerror(-r));
	saver_kick(d->saver);
	log_info("reloaded");
}

static int on_signal(sd_event_source *s, const struct signalfd_siginfo *si, void *user)
{
	struct daemon *d = user;
	struct timespec now;

	(void)s;
	if (si->ssi_signo != SIGHUP)
		return sd_event_exit(d->event, 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
	reload(d);
	sd_notify(0, "READY=1");
	return 0;
}

static int add_events(struct daemon *d)
{
	uint64_t period_us;
	int r;

	/* before the links are read: what changes in between is not missed */
	d->links_fd = links_watch();
	r = d->links_fd < 0 ? d->links_fd :
			      sd_event_add_io(d->event, &d->links_event, d->links_fd, EPOLLIN, on_links, d);
	if (r >= 0)
		r = sd_event_add_time_relative(d->event, &d->links_timer, CLOCK_BOOTTIME, LINKS_SETTLE_US, 1000,
					       on_links_settled, d);
	if (r >= 0 && sd_watchdog_enabled(0, &period_us) > 0)
		r = sd_event_add_time_relative(d->event, &d->watchdog_timer, CLOCK_BOOTTIME, 0, 0, on_watchdog, d);
	if (r < 0)
		log_err("event loop: %s", strerror(-r));
	return r;
}

static int start_sweeper(struct daemon *d)
{
	int r = conntrack_new(&d->conntrack);

	if (r < 0)
		log_warn("conntrack cannot be asked (%s): silent shifted connections keep their records for days",
			 strerror(-r));
	r = sweeper_start(&d->sweeper, d->event, d->ops, d->datapath, d->conntrack, d->cfg.records, d->cfg.hold * 1000);
	if (r < 0)
		log_err("event loop: %s", strerror(-r));
	else if (d->conntrack)
		sweeper_resync_mappings(d->sweeper); /* connections that were there before us */
	return r;
}

/* Mappings come with queued packets where the kernel attaches them; elsewhere from conntrack's events, if wanted. */
static void start_mappings(struct daemon *d)
{
	int fd, r;

	if (!d->conntrack || !d->cfg.conntrack_events || (d->n_workers && queue_worker_has_mapping(d->worker[0])))
		return;
	fd = conntrack_subscribe(d->conntrack, on_mapping, d);
	r = fd < 0 ? fd : sd_event_add_io(d->event, &d->mappings_event, fd, EPOLLIN, on_mappings, d);
	if (r < 0) {
		log_notice("no conntrack events (%s): inside tuples are not known", strerror(-r));
		return;
	}
	/* nobody's connection depends on them: many at a wake-up */
	sd_event_source_set_priority(d->mappings_event, SD_EVENT_PRIORITY_IDLE);
	sd_event_source_set_ratelimit(d->mappings_event, MAPPINGS_US, 1);
}

static int all_counters(void *user, uint64_t *counters)
{
	return daemon_report.statistics(user, counters);
}

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
	static const struct health_ops ops = { .counters = all_counters, .restore_rules = restore_rules };
	int r = health_start(&d->health, d->event, d->rules != NULL, d->ops->apply == NULL, &ops, d);

	if (r < 0)
		log_err("event loop: %s", strerror(-r));
	return r;
}

static int start_gateway(struct daemon *d)
{
	char path[CONFIG_PATH_MAX + 32];
	int r;

	snprintf(path, sizeof(path), "%s/io.tsnatd.Gateway", d->cfg.runtime_dir);
	r = gateway_new(&d->gateway, d->event, path, &daemon_report, d);
	if (r < 0)
		log_err("%s: %s", path, strerror(-r));
	return r;
}

static int block_signals(struct daemon *d)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	sigset_t set;
	int r = sd_event_default(&d->event);

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	/* before any thread starts, so that all inherit it and the event loop alone gets them */
	if (r < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -EINVAL;
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < ARRAY_SIZE(signals) && r >= 0; i++)
		r = sd_event_add_signal(d->event, NULL, signals[i], on_signal, d);
	return r;
}

/* Kernels before 5.11 charge maps to RLIMIT_MEMLOCK; where it cannot be raised the load says so. */
static void raise_memlock(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &all) < 0)
		log_debug("RLIMIT_MEMLOCK: %s", strerror(errno));
}

/* ---- the whole ---- */

/*
 * Without program in the kernel, nobody shifts the segments of live connections now. While the rules stay, those wait for the next start
 * (TCP sends them again); without rules they would leave unshifted, and break.
 */
static bool must_keep_rules(const struct daemon *d)
{
	uint64_t n[COUNTER_COUNT] = { 0 };

	if (!d->ops || !d->ops->apply || d->ops->counters(d->datapath, n) < 0 || n[COUNTER_SHIFTS_STARTED] <= n[COUNTER_SHIFTS_ENDED])
		return false;
	log_notice("%llu shifted connections wait for the next start; --cleanup gives them up",
		   (unsigned long long)(n[COUNTER_SHIFTS_STARTED] - n[COUNTER_SHIFTS_ENDED]));
	return true;
}

static void remove_rules(struct daemon *d)
{
	if (d->rules && !must_keep_rules(d) && rules_remove(d->rules) < 0)
		log_warn("the nft rules could not be removed");
	rules_free(d->rules);
	d->rules = NULL;
}

static void stop(struct daemon *d)
{
	const struct datapath_config cfg = datapath_config(&d->cfg, &d->clock);

	sd_notify(0, "STOPPING=1");
	gateway_free(d->gateway);
	health_free(d->health);
	d->health = NULL;
	/* first no new SYN is queued, then those that wait get their verdicts; only then the base chains may go */
	if (d->rules)
		rules_pause(d->rules);
	for (size_t i = 0; i < d->n_workers; i++)
		queue_worker_stop(d->worker[i]);
	for (size_t i = 0; i < ARRAY_SIZE(d->worker_conntrack); i++)
		conntrack_free(d->worker_conntrack[i]);
	guardian_stop(d->guardian);
	remove_rules(d);
	/* the filters stay for live connections; new ones are none of their business from now on */
	if (d->datapath)
		d->ops->configure(d->datapath, &cfg, false);
	sweeper_free(d->sweeper);
	sd_event_source_unref(d->mappings_event);
	conntrack_free(d->conntrack);
	saver_stop(d->saver);
	if (d->ops)
		d->ops->close(d->datapath);
	sd_event_source_unref(d->links_event);
	sd_event_source_unref(d->links_timer);
	sd_event_source_unref(d->watchdog_timer);
	close_fd(&d->links_fd);
	sd_event_unref(d->event);
	close_fd(&d->lock_fd);
}

static int start(struct daemon *d)
{
	int r = take_lock(d);

	if (r >= 0)
		r = block_signals(d);
	if (r >= 0)
		r = start_datapath(d);
	if (r >= 0)
		r = start_clocks(d);
	/* what the programs decide by comes before the programs */
	if (r >= 0)
		r = apply_policy(d);
	if (r >= 0)
		r = add_events(d);
	if (r >= 0)
		r = start_attachments(d);
	if (r >= 0)
		r = start_sweeper(d);
	/* the guardian is forked in here: before any thread but the saver's, which holds no lock that it needs */
	if (r >= 0)
		r = start_workers(d);
	if (r >= 0)
		start_mappings(d);
	/* rules after workers: a rule without a listener would only bypass */
	if (r >= 0)
		r = start_rules(d);
	if (r >= 0)
		r = start_health(d);
	if (r >= 0)
		r = start_gateway(d);
	return r;
}

static int run(int argc, char **argv, const struct config *cfg)
{
	struct daemon d = { .argc = argc, .argv = argv, .cfg = *cfg, .lock_fd = -1, .links_fd = -1 };
	int r;

	d.started_ms = boot_ms();
	raise_memlock();
	r = start(&d);
	if (r >= 0) {
		log_info("tsnatd %s: policy %s, datapath %s, decisions in the %s", VERSION,
			 config_policy_name(cfg->policy), d.ops->name, config_decide_name(cfg->decide));
		sd_notify(0, "READY=1");
		r = sd_event_loop(d.event);
	}
	stop(&d);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int cleanup(const struct config *cfg)
{
	const struct datapath_config dp = datapath_config(cfg, &(struct tsclock){ 0 });
	const struct rules_config rules_cfg = { .queue_num = (uint16_t)cfg->queue_num, .queues = 1 };
	struct daemon d = { .cfg = *cfg, .lock_fd = -1 };
	struct rules *rules = NULL;
	int r = take_lock(&d);

	if (r < 0)
		return EXIT_FAILURE;
	r = rules_new(&rules, &rules_cfg);
	if (r >= 0)
		r = rules_remove(rules);
	rules_free(rules);
	if (r < 0)
		log_err("nft rules: %s", strerror(-r));
	if (datapath_bpf.cleanup(&dp) < 0 || datapath_queue.cleanup(&dp) < 0)
		r = -EIO;
	close_fd(&d.lock_fd);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	enum config_action action;
	struct config cfg;

	log_open(LOG_INFO);
	if (config_load(&cfg, &action, argc, argv, report_problem, NULL) < 0)
		return 2;
	log_set_level((int)cfg.log_level);
	switch (action) {
	case CONFIG_HELP:
		config_usage();
		return EXIT_SUCCESS;
	case CONFIG_VERSION:
		puts("tsnatd " VERSION);
		return EXIT_SUCCESS;
	case CONFIG_CHECK:
		return EXIT_SUCCESS;
	case CONFIG_CLEANUP:
		return cleanup(&cfg);
	case CONFIG_RUN:
		return run(argc, argv, &cfg);
	}
	return EXIT_FAILURE;
}
