/* SPDX-License-Identifier: GPL-2.0-or-later */
/* config.h - the configuration, read from the configuration file and the command line. */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef SYSCONFDIR
#define SYSCONFDIR "/etc"
#endif

#define CONFIG_DEFAULT_FILE SYSCONFDIR "/tsnatd.conf"
#define CONFIG_INTERFACES_MAX 64
#define CONFIG_EXTERNAL_MAX 64
#define CONFIG_QUEUES_MAX 64
/* runtime_dir and the name of the socket in it must fit into sun_path. */
#define CONFIG_PATH_MAX 96

/* The words of each are in config.c. For policy and scope see core/decide.h and core/tsclock.h. */
enum config_datapath {
	CONFIG_DATAPATH_AUTO,
	CONFIG_DATAPATH_BPF,
	CONFIG_DATAPATH_QUEUE,
	CONFIG_DATAPATH_COUNT,
};
enum config_decide {
	CONFIG_DECIDE_QUEUE,
	CONFIG_DECIDE_KERNEL,
	CONFIG_DECIDE_COUNT,
};
enum config_gap {
	CONFIG_GAP_BYPASS,
	CONFIG_GAP_WAIT,
	CONFIG_GAP_COUNT,
};
enum config_rules {
	CONFIG_RULES_MANAGED,
	CONFIG_RULES_NONE,
	CONFIG_RULES_COUNT,
};

struct config_prefix {
	uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t len;	  /* in bits of addr: an IPv4 /24 is 120 */
};

struct config {
	char interfaces[CONFIG_INTERFACES_MAX][IFNAMSIZ];
	size_t n_interfaces; /* 0: the interfaces of the default routes */
	struct config_prefix external[CONFIG_EXTERNAL_MAX];
	size_t n_external;
	uint32_t policy;   /* enum policy */
	uint32_t scope;	   /* enum scope */
	uint32_t datapath; /* enum config_datapath */
	uint32_t decide;   /* enum config_decide */
	uint32_t rules;	   /* enum config_rules */
	char state_dir[CONFIG_PATH_MAX];
	char runtime_dir[CONFIG_PATH_MAX];
	char pin_dir[CONFIG_PATH_MAX];
	uint32_t queue_num;
	uint32_t queues;	   /* of each kind; 0: see daemon_count_queues() */
	uint32_t restart_gap;	   /* enum config_gap */
	uint32_t hold;		   /* seconds */
	uint32_t records;	   /* how many there can be */
	uint32_t conntrack_events; /* bool: learn inside tuples from conntrack's events */
	uint32_t mark_mask;	   /* queue datapath: bits of marks that it may use */
	uint32_t log_level;	   /* LOG_ERR ... LOG_DEBUG */
};

enum config_action {
	CONFIG_RUN,
	CONFIG_CHECK,
	CONFIG_CLEANUP,
	CONFIG_REMOVE_RULES,
	CONFIG_VERSION,
	CONFIG_HELP
};

/*
 * Called once per finding, with a line for the administrator. LEVEL is LOG_ERR for a problem, which
 * makes the configuration invalid, and LOG_NOTICE for a value that is accepted but has a new name.
 */
typedef void config_report_fn(void *user, int level, const char *line);

void config_defaults(struct config *c);

/*
 * Read the file PATH into C. Options that are not in the file keep their values. Returns 0; -EINVAL
 * after every problem in the file was reported; another -errno, which is not reported, when the
 * file cannot be read. C is written on success only.
 */
int config_parse_file(struct config *c, const char *path, config_report_fn *report, void *user);

/*
 * Make the whole configuration: the defaults, then the file (that of -c, or the default file if it
 * exists), then the command line. Returns 0, or -EINVAL after every problem was reported.
 */
int config_load(struct config *ret, enum config_action *ret_action, int argc, char **argv,
		config_report_fn *report, void *user);

/* Print --help. */
void config_usage(void);
const char *config_policy_name(uint32_t policy);
const char *config_scope_name(uint32_t scope);
const char *config_decide_name(uint32_t decide);
