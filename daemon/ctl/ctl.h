/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl.h - tsnatctl's subcommands. Each returns an exit status and has told the user why it is not
 * 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ctl_client.h"
#include "ctl_print.h"

struct ctl_options {
	const char *socket;
	bool json;
	bool all;     /* connections that are over, too */
	bool aligned; /* for people: standard output is a terminal */
	unsigned int interval_s;
	const char *file; /* an argument, or NULL */
};

/* What is not valid is the user's to mend: wrong usage, or a wrong configuration. */
#define CTL_EXIT_INVALID 2

int ctl_status(const struct ctl_options *o);
int ctl_stats(const struct ctl_options *o);
int ctl_connections(const struct ctl_options *o);
int ctl_destinations(const struct ctl_options *o);
int ctl_top(const struct ctl_options *o);
int ctl_metrics(const struct ctl_options *o);
int ctl_check(const struct ctl_options *o);
int ctl_reload(const struct ctl_options *o);
int ctl_rules(const struct ctl_options *o);

/* Tell the client's problem. Returns EXIT_FAILURE. */
int ctl_failed(const struct ctl_client *c);

/* Connect and call one method with one answer. Returns 0, or -errno after telling. */
int ctl_get(const struct ctl_options *o, const char *method, struct json_object **ret);

/* One line. */
void ctl_print_json(struct json_object *o);

/* ctl_lists.c's, for whoever shows destinations. */
struct ctl_destination {
	char *endpoint;
	int64_t records, shifted, refused;
};
struct ctl_destinations {
	struct ctl_destination *list; /* the one with most records first */
	size_t n, capacity;
	bool truncated;
};
/* Returns 0 or -errno, and the client knows why. */
int ctl_fetch_destinations(struct ctl_client *c, struct ctl_destinations *ret);
void ctl_free_destinations(struct ctl_destinations *d);
/* A table of the first MAX destinations. */
void ctl_print_destinations(const struct ctl_destinations *d, size_t max, FILE *f, bool aligned);
