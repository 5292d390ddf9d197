// SPDX-License-Identifier: GPL-2.0-or-later
/* main.c - the program: what the command line asks for, and the exit status. */
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
#define EXIT_NEEDS 3 /* what it needs is missing or taken */

/* Kernels before 5.11 charge maps to RLIMIT_MEMLOCK; where it cannot be raised the load says so. */
static void raise_memlock(void)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &all) < 0)
		log_debug("RLIMIT_MEMLOCK: %s", strerror(errno));
}

/* Of a start that failed. Parts return these errors for nothing that passes by itself. */
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
	int r, code;

	d.started_ms = boot_ms();
	raise_memlock();
	r = daemon_start(&d);
	code = exit_code(r);
	if (r >= 0) {
		log_info("tsnatd %s: policy %s, datapath %s, decisions in the %s", VERSION,
			 config_policy_name(cfg->policy), d.ops->name,
			 config_decide_name(cfg->decide));
		daemon_keep_queues(&d);
		sd_notify(0, "READY=1");
		code = sd_event_loop(d.event) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	} else {
		daemon_give_up_gap(&d);
	}
	daemon_stop(&d);
	return code;
}

static int cleanup(const struct config *cfg)
{
	const struct datapath_config dp = daemon_datapath_config(cfg);
	const struct rules_config rules_cfg = { .queue_num = (uint16_t)cfg->queue_num,
						.queues = 1 };
	struct daemon d = { .cfg = *cfg, .lock_fd = -1 };
	struct rules *rules = NULL;
	int r = daemon_take_lock(&d);

	if (r < 0)
		return exit_code(r);
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

/* What a daemon with restart_gap = wait left for a next one that does not come. */
static int remove_left_rules(const struct config *cfg)
{
	const struct datapath_config dp = daemon_datapath_config(cfg);
	const struct rules_config rules_cfg = { .queue_num = (uint16_t)cfg->queue_num,
						.queues = 1 };
	struct daemon d = { .cfg = *cfg, .lock_fd = -1 };
	int r = daemon_take_lock(&d);

	if (r < 0)
		return exit_code(r);
	r = rules_new(&d.rules, &rules_cfg);
	if (r >= 0)
		r = rules_pause(d.rules);
	if (r >= 0 && !(cfg->datapath != CONFIG_DATAPATH_BPF &&
			daemon_must_keep_rules(datapath_queue_open_shifts(&dp))))
		r = rules_remove(d.rules);
	if (r < 0)
		log_err("nft rules: %s", strerror(-r));
	rules_free(d.rules);
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
