// SPDX-License-Identifier: GPL-2.0-or-later
/* tsnatctl.c - the command line, and the subcommands status and stats. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "ctl_statistics.h"
#include "varlink/gateway_names.h"
#include "varlink/json_util.h"
#include "base/util.h"

#define INTERVAL_DEFAULT_S 2

/* Functions that subcommands share */

int ctl_failed(const struct ctl_client *c)
{
	fprintf(stderr, "tsnatctl: %s\n", c->problem);
	return EXIT_FAILURE;
}

int ctl_get(const struct ctl_options *o, const char *method, struct json_object **ret)
{
	_cleanup_ctl_close_ struct ctl_client client = { .fd = -1 };
	int r = ctl_open_and_call(&client, o->socket, method, ret);

	if (r < 0)
		ctl_failed(&client);
	return r;
}

void ctl_print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
}

/* status */

static const struct column status_columns[] = { { NULL, false }, { NULL, false } };

static void add_link(struct table *t, struct json_object *link)
{
	const char *name = json_get_string(link, "name"), *how;

	if (json_object_get_boolean(json_object_object_get(link, "attached")))
		how = "attached";
	else
		how = json_get_number(link, "ifindex") ? "not attached" : "not there";
	table_add(t, "link");
	table_addf(t, "%s %s", name ? name : "-", how);
}

static void add_problem(struct table *t, struct json_object *problem)
{
	table_add(t, "problem");
	table_add(t, json_object_get_string(problem));
}

static void add_each(struct table *t, struct json_object *list,
		     void (*add)(struct table *t, struct json_object *item))
{
	if (json_object_is_type(list, json_type_array))
		for (size_t i = 0; i < json_object_array_length(list); i++)
			add(t, json_object_array_get_idx(list, i));
}

static void add_status_field(struct table *t, const char *name, struct json_object *value,
			     bool for_people)
{
	char buf[DURATION_MAX];

	if (json_object_is_type(value, json_type_array))
		return;
	if (for_people && strcmp(name, "uptime_ms") == 0) {
		table_add(t, "uptime");
		table_add(t, format_duration(buf, json_object_get_int64(value)));
		return;
	}
	table_add(t, name);
	if (json_object_is_type(value, json_type_boolean))
		table_add(t, json_object_get_boolean(value) ? "yes" : "no");
	else
		table_add(t, json_object_get_string(value));
}

static void print_status(struct json_object *status, bool aligned)
{
	struct table t;

	table_init(&t, status_columns, ARRAY_SIZE(status_columns));
	json_object_object_foreach(status, name, value)
	{
		add_status_field(&t, name, value, aligned);
	}
	add_each(&t, json_object_object_get(status, "links"), add_link);
	add_each(&t, json_object_object_get(status, "problems"), add_problem);
	table_print(&t, stdout, aligned);
	table_free(&t);
}

static int ctl_status(const struct ctl_options *o)
{
	struct json_object *status;

	if (ctl_get(o, GATEWAY_INTERFACE ".GetStatus", &status) < 0)
		return EXIT_FAILURE;
	if (o->json)
		ctl_print_json(status);
	else
		print_status(status, o->aligned);
	json_object_put(status);
	return EXIT_SUCCESS;
}

/* stats */

static const struct column stats_columns[] = { { NULL, false }, { NULL, true }, { NULL, false } };

/* Programs get lines of name and value; people get a description, too. */
static void print_stats(struct json_object *statistics, bool aligned)
{
	struct table t;

	table_init(&t, stats_columns, aligned ? 3 : 2);
	json_object_object_foreach(statistics, name, value)
	{
		const struct statistic *known = statistic_find(name);

		table_add(&t, name);
		table_add_number(&t, json_object_get_int64(value));
		if (aligned)
			table_add(&t, known ? known->text : "");
	}
	table_print(&t, stdout, aligned);
	table_free(&t);
}

static int ctl_stats(const struct ctl_options *o)
{
	struct json_object *statistics;

	if (ctl_get(o, GATEWAY_INTERFACE ".GetStatistics", &statistics) < 0)
		return EXIT_FAILURE;
	if (o->json)
		ctl_print_json(statistics);
	else
		print_stats(statistics, o->aligned);
	json_object_put(statistics);
	return EXIT_SUCCESS;
}

/* The command line */

enum { HAS_JSON = 1, HAS_INTERVAL = 2, HAS_FILE = 4, HAS_ALL = 8 };

static const struct subcommand {
	const char *name;
	int (*run)(const struct ctl_options *o);
	unsigned int has;
	const char *text;
} subcommands[] = {
	{ "status", ctl_status, HAS_JSON, "state of the daemon, and its problems" },
	{ "stats", ctl_stats, HAS_JSON, "all counters" },
	{ "connections", ctl_connections, HAS_JSON | HAS_ALL, "open connections" },
	{ "destinations", ctl_destinations, HAS_JSON, "servers of all remembered connections" },
	{ "top", ctl_top, HAS_JSON | HAS_INTERVAL,
	  "counters and servers as they change; q ends it" },
	{ "metrics", ctl_metrics, 0, "status and counters as OpenMetrics text, for Prometheus" },
	{ "rules", ctl_rules, HAS_JSON, "the nft rules, as text for nft(8)" },
	{ "check", ctl_check, HAS_JSON | HAS_FILE,
	  "validate the configuration FILE, and print its problems" },
	{ "reload", ctl_reload, HAS_JSON, "make the daemon read its configuration again" },
};

static void print_help(void)
{
	printf("Usage: tsnatctl [OPTION]... SUBCOMMAND [FILE]\n\n"
	       "Query a running tsnatd, or make it reload.\n\nSubcommands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		printf("  %-14s%s\n", subcommands[i].name, subcommands[i].text);
	printf("\nOptions:\n"
	       "  --json              print JSON, one object\n"
	       "  --socket PATH       socket of the daemon; default: %s\n"
	       "  --interval SECONDS  for top; default: %d\n"
	       "  --all               for connections: list closed ones, too\n"
	       "  --help              print this\n"
	       "  --version           print the version\n"
	       "\n"
	       "On a terminal, tables have headings and aligned columns. Elsewhere each row is a\n"
	       "line, one space separates the columns, and \"-\" is an unknown value.\n"
	       "\n"
	       "Exit status: 0 success, 1 tsnatd did not answer or refused, 2 wrong usage or a\n"
	       "configuration that is not valid.\n",
	       GATEWAY_SOCKET, INTERVAL_DEFAULT_S);
}

static int __attribute__((format(printf, 1, 2))) usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("tsnatctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputs("\nTry 'tsnatctl --help'.\n", stderr);
	va_end(ap);
	return CTL_EXIT_INVALID;
}

static bool parse_interval(const char *text, unsigned int *ret)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || n < GATEWAY_INTERVAL_MIN_S ||
	    n > GATEWAY_INTERVAL_MAX_S)
		return false;
	*ret = (unsigned int)n;
	return true;
}

static const struct subcommand *find_subcommand(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		if (strcmp(subcommands[i].name, name) == 0)
			return &subcommands[i];
	return NULL;
}

/* Parse the arguments that are not options. Returns 0 or an exit status. */
static int parse_subcommand(int argc, char **argv, struct ctl_options *o,
			    const struct subcommand **ret)
{
	const struct subcommand *s;
	int arguments;

	if (optind == argc)
		return usage("a subcommand is missing");
	s = find_subcommand(argv[optind]);
	if (!s)
		return usage("there is no subcommand '%s'", argv[optind]);
	arguments = s->has & HAS_FILE ? 1 : 0;
	if (optind + 1 + arguments < argc)
		return usage("'%s' is one argument too many", argv[optind + 1 + arguments]);
	if (o->json && !(s->has & HAS_JSON))
		return usage("%s has no --json", s->name);
	if (o->interval_s && !(s->has & HAS_INTERVAL))
		return usage("%s has no --interval", s->name);
	if (o->all && !(s->has & HAS_ALL))
		return usage("%s has no --all", s->name);
	o->file = optind + 1 < argc ? argv[optind + 1] : NULL;
	*ret = s;
	return 0;
}

/* Output that cannot be written is a failure. */
static int flush_output(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "tsnatctl: cannot write: %s\n", strerror(errno));
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, 's' },
		{ "interval", required_argument, NULL, 'i' },
		{ "all", no_argument, NULL, 'a' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct ctl_options o = { .socket = GATEWAY_SOCKET, .aligned = isatty(STDOUT_FILENO) };
	const struct subcommand *subcommand = NULL;
	int c, status;

	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
		switch (c) {
		case 'j':
			o.json = true;
			break;
		case 's':
			o.socket = optarg;
			break;
		case 'i':
			if (!parse_interval(optarg, &o.interval_s))
				return usage("--interval is %d to %d seconds",
					     GATEWAY_INTERVAL_MIN_S, GATEWAY_INTERVAL_MAX_S);
			break;
		case 'a':
			o.all = true;
			break;
		case 'h':
			print_help();
			return flush_output(EXIT_SUCCESS);
		case 'v':
			printf("tsnatctl %s\n", VERSION);
			return flush_output(EXIT_SUCCESS);
		default:
			/* getopt_long() has printed the reason */
			return CTL_EXIT_INVALID;
		}
	}
	status = parse_subcommand(argc, argv, &o, &subcommand);
	if (status)
		return status;
	if (!o.interval_s)
		o.interval_s = INTERVAL_DEFAULT_S;
	return flush_output(subcommand->run(&o));
}
