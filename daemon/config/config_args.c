// SPDX-License-Identifier: GPL-2.0-or-later
/* config_args.c - the command line, which overrides the file. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "config_option.h"

enum { ARG_CHECK = 1000, ARG_CLEANUP, ARG_REMOVE_RULES, ARG_VERSION, ARG_HELP, ARG_OPTION = 2000 };
#define N_FIXED_ARGS 7

static void make_long_options(struct option *to, char names[][32])
{
	static const struct option fixed[N_FIXED_ARGS] = {
		{ "config", required_argument, NULL, 'c' },
		{ "interface", required_argument, NULL, 'i' },
		{ "check", no_argument, NULL, ARG_CHECK },
		{ "cleanup", no_argument, NULL, ARG_CLEANUP },
		{ "version", no_argument, NULL, ARG_VERSION },
		{ "help", no_argument, NULL, ARG_HELP },
		{ "remove-rules", no_argument, NULL, ARG_REMOVE_RULES },
	};
	size_t n = N_FIXED_ARGS;

	memcpy(to, fixed, sizeof(fixed));
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		if (config_options[i].file_only)
			continue;
		snprintf(names[i], 32, "%s", config_options[i].name);
		for (char *p = names[i]; *p; p++)
			if (*p == '_')
				*p = '-';
		to[n++] = (struct option){ names[i], required_argument, NULL, ARG_OPTION + (int)i };
	}
	to[n] = (struct option){ 0 };
}

struct arguments {
	const char *file;
	enum config_action action;
	const char *interfaces[CONFIG_INTERFACES_MAX];
	size_t n_interfaces;
	const char *values[CONFIG_OPTIONS];
};

static void read_arguments(struct arguments *a, int argc, char **argv, struct config_problems *p)
{
	struct option long_options[N_FIXED_ARGS + CONFIG_OPTIONS + 1];
	char names[CONFIG_OPTIONS][32];
	int c;

	make_long_options(long_options, names);
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, ":c:i:h", long_options, NULL)) != -1) {
		if (c >= ARG_OPTION)
			a->values[c - ARG_OPTION] = optarg;
		else if (c == 'c')
			a->file = optarg;
		else if (c == 'i' && a->n_interfaces < CONFIG_INTERFACES_MAX)
			a->interfaces[a->n_interfaces++] = optarg;
		else if (c == 'h' || c == ARG_HELP)
			a->action = CONFIG_HELP;
		else if (c == ARG_VERSION)
			a->action = CONFIG_VERSION;
		else if (c == ARG_CHECK)
			a->action = CONFIG_CHECK;
		else if (c == ARG_CLEANUP)
			a->action = CONFIG_CLEANUP;
		else if (c == ARG_REMOVE_RULES)
			a->action = CONFIG_REMOVE_RULES;
		else
			config_problem(p, "%s: %s", argv[optind - 1],
				       c == ':' ? "needs an argument"
						: "there is no such option; see --help");
	}
	if (optind < argc)
		config_problem(p, "%s: unexpected argument; see --help", argv[optind]);
}

static void apply_arguments(struct config *c, const struct arguments *a, struct config_problems *p)
{
	const struct config_option *interfaces = config_find_option("interfaces");
	const char *why, *new_word;

	/* -i replaces the list of the file */
	if (a->n_interfaces)
		c->n_interfaces = 0;
	for (size_t i = 0; i < a->n_interfaces; i++) {
		why = config_set_word(c, interfaces, a->interfaces[i]);
		if (why)
			config_problem(p, "-i: %s %s", a->interfaces[i], why);
	}
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		if (!a->values[i])
			continue;
		why = config_set_word(c, &config_options[i], a->values[i]);
		if (why)
			config_problem(p, "%s: %s: %s", config_options[i].name, a->values[i], why);
		new_word = config_new_word(&config_options[i], a->values[i]);
		if (new_word)
			config_notice(p, "%s: \"%s\" is now called \"%s\"", config_options[i].name,
				      a->values[i], new_word);
	}
}

/* Options that exclude each other, though each value is allowed. */
static void check_together(const struct config *c, struct config_problems *p)
{
	/* SYNs; with the datapath queue also segments out and segments in */
	const uint32_t kinds = c->datapath == CONFIG_DATAPATH_BPF ? 1 : 3;
	/* 0 queues: the daemon takes as many as there are numbers left */
	const uint32_t queues = c->queues ? c->queues : 1;

	if (c->queue_num + kinds * queues > 65536)
		config_problem(p, "queues: %u queues from number %u end beyond 65535",
			       kinds * queues, c->queue_num);
	if (c->decide == CONFIG_DECIDE_KERNEL && c->datapath == CONFIG_DATAPATH_QUEUE)
		config_problem(p, "decide: \"kernel\" needs the bpf datapath");
}

static int load_file(struct config *c, const char *named, struct config_problems *p)
{
	const char *path = named ? named : CONFIG_DEFAULT_FILE;
	int r = config_parse_file(c, path, p->report, p->user);

	if (r == -ENOENT && !named)
		return 0;
	if (r < 0 && r != -EINVAL)
		config_problem(p, "%s: %s", path, strerror(-r));
	return r;
}

int config_load(struct config *ret, enum config_action *ret_action, int argc, char **argv,
		config_report_fn *report, void *user)
{
	struct config_problems p = { .report = report, .user = user };
	struct arguments a = { 0 };
	struct config c;
	int r;

	config_defaults(&c);
	read_arguments(&a, argc, argv, &p);
	if (!p.n && (a.action == CONFIG_HELP || a.action == CONFIG_VERSION)) {
		*ret_action = a.action;
		*ret = c;
		return 0;
	}
	r = load_file(&c, a.file, &p);
	apply_arguments(&c, &a, &p);
	check_together(&c, &p);
	if (r < 0 || p.n)
		return -EINVAL;
	*ret_action = a.action;
	*ret = c;
	return 0;
}

void config_usage(void)
{
	puts("usage: tsnatd [OPTION]...\n"
	     "NAT for TCP timestamps: when a translated connection reuses the addresses and\n"
	     "ports of an earlier one, the server still sees timestamps that only grow.\n\n"
	     "  -c, --config FILE              configuration file (default:\n"
	     "                                 " CONFIG_DEFAULT_FILE ", if it exists)\n"
	     "  -i, --interface IFACE          an outgoing interface; may be repeated\n"
	     "                                 (default: the interfaces of the default routes)\n"
	     "      --policy repair|unify      shift only connections that would be refused,\n"
	     "                                 or give each destination one clock\n"
	     "      --scope destination|tuple  one clock per destination or per tuple (\"unify\")\n"
	     "      --datapath auto|bpf|queue  how shifts are applied to packets\n"
	     "      --decide queue|kernel      where SYNs are decided first\n"
	     "      --rules managed|none       install nft rules, or leave them to you\n"
	     "                                 (see conf/tsnatd.nft)\n"
	     "      --queue-num N              number of the first netfilter queue\n"
	     "                                 (default: 5150)\n"
	     "      --queues N                 number of queues, with two threads each\n"
	     "                                 (default: 0, one per processor)\n"
	     "      --restart-gap bypass|wait  SYNs pass undecided during a restart, or wait\n"
	     "                                 for the next start, which needs systemd\n"
	     "      --hold SECONDS             how long a record outlives its last packet\n"
	     "                                 (default: 300)\n"
	     "      --state-dir DIR            (default: /var/lib/tsnatd)\n"
	     "      --runtime-dir DIR          (default: /run/tsnatd)\n"
	     "      --pin-dir DIR              on a bpffs (default: /sys/fs/bpf/tsnatd)\n"
	     "      --log-level LEVEL          error, warning, notice, info or debug\n"
	     "      --check                    validate the configuration and exit\n"
	     "      --cleanup                  remove the rules, filters and pins of this\n"
	     "                                 instance, and exit\n"
	     "      --remove-rules             remove the rules of this instance and exit\n"
	     "      --version, --help\n\n"
	     "Exit codes: 0 success, 1 failure, 2 wrong usage or configuration, 3 a permission,\n"
	     "a kernel feature or a resource is missing or in use.");
}
