// SPDX-License-Identifier: GPL-2.0-or-later
/* ctl_metrics.c - the subcommand metrics: status and statistics as OpenMetrics text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_statistics.h"
#include "varlink/gateway_names.h"
#include "varlink/json_util.h"
#include "base/util.h"

#define PREFIX "tsnatd_"

/* UNIT is the last word of NAME; NULL: a number without unit. */
static void print_family(const char *name, const char *type, const char *unit, const char *help)
{
	printf("# TYPE " PREFIX "%s %s\n", name, type);
	if (unit)
		printf("# UNIT " PREFIX "%s %s\n", name, unit);
	printf("# HELP " PREFIX "%s %s\n", name, help);
}

static void print_gauge(const char *name, const char *unit, const char *help, int64_t value)
{
	print_family(name, "gauge", unit, help);
	printf(PREFIX "%s %" PRId64 "\n", name, value);
}

static void print_label(const char *separator, const char *name, const char *value)
{
	printf("%s%s=\"", separator, name);
	for (const char *p = value ? value : ""; *p; p++) {
		if (*p == '\\' || *p == '"')
			putchar('\\');
		if (*p == '\n')
			fputs("\\n", stdout);
		else
			putchar(*p);
	}
	putchar('"');
}

static void print_build(struct json_object *status)
{
	static const char *const labels[] = { "version", "datapath", "decide", "policy",
					      "scope",	 "rules",    "mapping" };

	print_family("build", "info", NULL, "version and settings of tsnatd");
	printf(PREFIX "build_info");
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		print_label(i ? "," : "{", labels[i], json_get_string(status, labels[i]));
	printf("} 1\n");
}

static void print_uptime(int64_t uptime_ms)
{
	print_family("uptime_seconds", "gauge", "seconds", "time since tsnatd started");
	printf(PREFIX "uptime_seconds %" PRId64 ".%03d\n", uptime_ms / 1000,
	       (int)(uptime_ms % 1000));
}

static void print_links(struct json_object *links)
{
	print_family("link_attached", "gauge", NULL,
		     "1 when the datapath sees the interface's packets");
	for (size_t i = 0; i < json_object_array_length(links); i++) {
		struct json_object *link = json_object_array_get_idx(links, i);

		printf(PREFIX "link_attached");
		print_label("{", "link", json_get_string(link, "name"));
		printf("} %d\n", json_object_get_boolean(json_object_object_get(link, "attached")));
	}
}

static void print_status(struct json_object *status)
{
	struct json_object *links = json_object_object_get(status, "links");
	struct json_object *problems = json_object_object_get(status, "problems");

	print_build(status);
	print_uptime(json_get_number(status, "uptime_ms"));
	print_gauge("hold_seconds", "seconds",
		    "how long a connection is remembered after its last packet",
		    json_get_number(status, "hold_s"));
	print_gauge("records_limit", NULL, "connections that can be remembered at once",
		    json_get_number(status, "records_limit"));
	print_gauge("realtime", NULL, "1 when the workers run at real-time priority",
		    json_object_get_boolean(json_object_object_get(status, "realtime")));
	if (json_object_is_type(links, json_type_array))
		print_links(links);
	if (json_object_is_type(problems, json_type_array))
		print_gauge("problems", NULL, "problems that tsnatctl status shows",
			    (int64_t)json_object_array_length(problems));
}

static void print_statistic(const char *name, int64_t value)
{
	const struct statistic *known = statistic_find(name);

	if (known && !known->is_gauge) {
		print_family(name, "counter", NULL, known->text);
		printf(PREFIX "%s_total %" PRId64 "\n", name, value);
		return;
	}
	print_family(name, known ? "gauge" : "unknown", NULL,
		     known ? known->text : "unknown to this version of tsnatctl");
	printf(PREFIX "%s %" PRId64 "\n", name, value);
}

int ctl_metrics(const struct ctl_options *o)
{
	struct json_object *status, *statistics;

	if (ctl_get(o, GATEWAY_INTERFACE ".GetStatus", &status) < 0)
		return EXIT_FAILURE;
	if (ctl_get(o, GATEWAY_INTERFACE ".GetStatistics", &statistics) < 0) {
		json_object_put(status);
		return EXIT_FAILURE;
	}
	print_status(status);
	json_object_object_foreach(statistics, name, value)
	{
		print_statistic(name, json_object_get_int64(value));
	}
	printf("# EOF\n");
	json_object_put(status);
	json_object_put(statistics);
	return EXIT_SUCCESS;
}
