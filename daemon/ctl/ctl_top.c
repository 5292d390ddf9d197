// SPDX-License-Identifier: GPL-2.0-or-later
/* ctl_top.c - the subcommand top: counters and destinations, redrawn every few seconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "ctl_screen.h"
#include "ctl_statistics.h"
#include "varlink/gateway_names.h"
#include "varlink/json_util.h"
#include "base/util.h"

/* Rows that are kept free for destinations, their heading and a blank line. */
#define DESTINATION_ROWS 8

/* The answers of one interval. */
struct sample {
	struct json_object *status, *statistics;
	struct ctl_destinations destinations;
	double at_s;
};

static const struct column top_columns[] = { { "", false }, { "total", true }, { "per s", true } };

static double monotonic_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sample_free(struct sample *s)
{
	json_object_put(s->status);
	json_object_put(s->statistics);
	ctl_free_destinations(&s->destinations);
	*s = (struct sample){ 0 };
}

/* On failure the caller frees the parts that were fetched. */
static int fetch_parts(const struct ctl_options *o, const struct screen *screen,
		       struct ctl_client *c, struct sample *s)
{
	int r = ctl_open(c, o->socket, &screen->wait_mask);

	if (r < 0)
		return r;
	r = ctl_call(c, GATEWAY_INTERFACE ".GetStatus", &s->status);
	if (r < 0)
		return r;
	r = ctl_call(c, GATEWAY_INTERFACE ".GetStatistics", &s->statistics);
	if (r < 0)
		return r;
	s->at_s = monotonic_s();
	return screen->is_terminal ? ctl_fetch_destinations(c, &s->destinations) : 0;
}

/* Each sample has a connection of its own, because the daemon may be restarted meanwhile. */
static int sample_fetch(const struct ctl_options *o, const struct screen *screen,
			struct ctl_client *c, struct sample *ret)
{
	struct sample s = { 0 };
	int r = fetch_parts(o, screen, c, &s);

	ctl_close(c);
	if (r < 0) {
		sample_free(&s);
		return r;
	}
	*ret = s;
	return 0;
}

/* The rate is unknown for a gauge, in the first sample, and after a restart of the daemon. */
static void add_rate(struct table *t, const char *name, int64_t value, const struct sample *now,
		     const struct sample *before)
{
	const struct statistic *known = statistic_find(name);
	int64_t old = json_get_number(before->statistics, name);

	if (!before->statistics || !known || known->is_gauge || value < old ||
	    now->at_s <= before->at_s)
		table_add(t, NULL);
	else
		table_addf(t, "%.1f", (double)(value - old) / (now->at_s - before->at_s));
}

static void print_counters(FILE *f, const struct sample *now, const struct sample *before,
			   size_t max, bool for_people)
{
	struct table t;

	table_init(&t, top_columns, ARRAY_SIZE(top_columns));
	json_object_object_foreach(now->statistics, name, value)
	{
		int64_t n = json_object_get_int64(value);

		/* zeros and rows beyond the screen only get in the way of people */
		if (for_people && (!n || t.n_cells / t.n_columns == max))
			continue;
		table_add(&t, name);
		table_add_number(&t, n);
		add_rate(&t, name, n, now, before);
	}
	table_print(&t, f, for_people);
	table_free(&t);
}

static void print_title(FILE *f, struct json_object *status)
{
	struct json_object *problems = json_object_object_get(status, "problems");
	size_t n = json_object_is_type(problems, json_type_array)
			   ? json_object_array_length(problems)
			   : 0;
	const char *version = json_get_string(status, "version");
	const char *datapath = json_get_string(status, "datapath");
	const char *policy = json_get_string(status, "policy");
	char up[DURATION_MAX];

	fprintf(f, "tsnatd %s, up %s, datapath %s, policy %s", version ? version : "-",
		format_duration(up, json_get_number(status, "uptime_ms")),
		datapath ? datapath : "-", policy ? policy : "-");
	if (n)
		fprintf(f, ", %zu problem%s: see tsnatctl status", n, n == 1 ? "" : "s");
	fputs("\n\n", f);
}

static void print_for_people(FILE *f, const struct sample *now, const struct sample *before,
			     int rows)
{
	/* title, blank, heading */
	int counter_rows = rows - 3 - DESTINATION_ROWS;

	print_title(f, now->status);
	print_counters(f, now, before, counter_rows > 0 ? (size_t)counter_rows : 1, true);
	fputc('\n', f);
	ctl_print_destinations(&now->destinations, (size_t)rows, f, true);
}

static void show(const struct ctl_options *o, struct screen *screen, const struct sample *now,
		 const struct sample *before)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *f;

	if (o->json) {
		ctl_print_json(now->statistics);
		fflush(stdout);
		return;
	}
	f = check_memory(open_memstream(&text, &length));
	if (screen->is_terminal) {
		print_for_people(f, now, before, screen->rows);
	} else {
		print_counters(f, now, before, 0, false);
		fputc('\n', f);
	}
	fclose(f);
	screen_draw(screen, text);
}

/* Returns 0, or -errno of the last sample. */
static int watch(const struct ctl_options *o, struct screen *screen, struct ctl_client *client)
{
	struct sample now, before = { 0 };
	int r;

	do {
		r = sample_fetch(o, screen, client, &now);
		if (r >= 0) {
			show(o, screen, &now, &before);
			sample_free(&before);
			before = now;
		} else if (!screen->is_terminal || !before.statistics) {
			break;
		} else {
			/* the daemon answered before: it may be restarting */
			screen_draw(screen, client->problem);
		}
	} while (screen_wait(screen, o->interval_s));
	sample_free(&before);
	return screen_interrupted() ? 0 : r;
}

int ctl_top(const struct ctl_options *o)
{
	struct ctl_client client;
	struct screen screen;
	int r;

	screen_open(&screen, !o->json);
	r = watch(o, &screen, &client);
	screen_close(&screen);
	return r < 0 ? ctl_failed(&client) : EXIT_SUCCESS;
}
