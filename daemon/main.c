// SPDX-License-Identifier: GPL-2.0-or-later
/* main.c - does as the command line asks, and chooses the exit status. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include "daemon.h"
#include "datapath_bpf/datapath_bpf.h"
#include "datapath_queue/datapath_queue.h"
#include "base/log.h"
#include "base/util.h"

#ifndef VERSION
#define VERSION "unknown"
#endif

#define EXIT_USAGE 2
#define EXIT_NEEDS 3 /* a permission, a kernel feature or a free queue is missing */

/*
 * Kernels before 5.11 charge BPF maps to RLIMIT_MEMLOCK. If it stays too low, loading the programs
 * fails, and the log says so.
 */
static void raise_memlock(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &all) < 0)
		log_debug("RLIMIT_MEMLOCK cannot be raised: %s", strerror(errno));
}

/*
 * The exit status of a start that returned R. The service manager does not try again after
 * EXIT_NEEDS, so the parts return its errors only for problems that do not pass by themselves.
 */
static int exit_code(int r)
{
	switch (-r) {
	case 0:
		return EXIT_SUCCESS;
	case EACCES:
	case EBUSY:
	case EOPNOTSUPP:
	case EPERM:
		return EXIT_NEEDS;
	}
	return EXIT_FAILURE;
}

static int run(int argc, char **argv, const struct config *cfg)
{
	struct daemon d = {
		.argc = argc, .argv = argv, .cfg = *cfg, .lock_fd = -1, .links_fd = -1
	};
	int r;

	d.started_ms = boot_ms();
	raise_memlock();
	r = daemon_start(&d);
	if (r < 0) {
		daemon_give_up_gap(&d);
		daemon_stop(&d);
		return exit_code(r);
	}
	log_info("tsnatd %s: policy %s, datapath %s, decisions in the %s", VERSION,
		 config_policy_name(cfg->policy), d.ops->name, config_decide_name(cfg->decide));
	daemon_keep_queues(&d);
	sd_notify(0, "READY=1");
	r = sd_event_loop(d.event);
	daemon_stop(&d);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

typedef int change_rules_fn(const struct config *cfg, struct rules *rules);

/* Call FN for the rules that an earlier run installed. Returns 0 or -errno, which is logged. */
static int change_rules(const struct config *cfg, change_rules_fn *fn)
{
	const struct rules_config rules_cfg = { .queue_num = (uint16_t)cfg->queue_num,
						.queues = 1 };
	struct rules *rules = NULL;
	int r = rules_new(&rules, &rules_cfg);

	if (r == 0)
		r = fn(cfg, rules);
	rules_free(rules);
	if (r < 0)
		log_err("the nft rules cannot be removed: %s", strerror(-r));
	return r;
}

static int remove_all_rules(const struct config *cfg, struct rules *rules)
{
	(void)cfg;
	return rules_remove(rules);
}

static int cleanup(const struct config *cfg)
{
	const struct datapath_config dp = daemon_datapath_config(cfg);
	struct daemon d = { .cfg = *cfg, .lock_fd = -1 };
	int r = daemon_take_lock(&d);

	if (r < 0)
		return exit_code(r);
	r = change_rules(cfg, remove_all_rules);
	if (datapath_bpf.cleanup(&dp) < 0 || datapath_queue.cleanup(&dp) < 0)
		r = -EIO;
	close_fd(&d.lock_fd);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int remove_unneeded_rules(const struct config *cfg, struct rules *rules)
{
	const struct datapath_config dp = daemon_datapath_config(cfg);
	int r = rules_pause(rules);

	if (r < 0)
		return r;
	if (cfg->datapath != CONFIG_DATAPATH_BPF &&
	    daemon_must_keep_rules(datapath_queue_open_shifts(&dp)))
		return 0;
	return rules_remove(rules);
}

/*
 * For the service manager, when no other daemon will follow one that left its rules for the next
 * (restart_gap).
 */
static int remove_left_rules(const struct config *cfg)
{
	struct daemon d = { .cfg = *cfg, .lock_fd = -1 };
	int r = daemon_take_lock(&d);

	if (r < 0)
		return exit_code(r);
	r = change_rules(cfg, remove_unneeded_rules);
	close_fd(&d.lock_fd);
	return exit_code(r);
}

int main(int argc, char **argv)
{
	enum config_action action;
	struct config cfg;

	log_open(LOG_INFO);
	if (config_load(&cfg, &action, argc, argv, daemon_log_config, NULL) < 0)
		return EXIT_USAGE;
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
	case CONFIG_REMOVE_RULES:
		return remove_left_rules(&cfg);
	case CONFIG_RUN:
		return run(argc, argv, &cfg);
	}
	return EXIT_FAILURE;
}
