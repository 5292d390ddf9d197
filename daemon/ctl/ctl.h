/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl.h - tsnatctl's subcommands, and functions that they share. A subcommand returns the exit
 * status, and prints the reason itself when that is not 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ctl_client.h"
#include "ctl_print.h"

struct ctl_options {
	const char *socket;
	bool json;
	bool all;     /* connections: list closed ones, too */
	bool aligned; /* standard output is a terminal: align columns, print headings */
	unsigned int interval_s;
	const char *file; /* check: the argument, or NULL */
};

/* Exit status for wrong usage and for a configuration that is not valid. */
#define CTL_EXIT_INVALID 2

int ctl_connections(const struct ctl_options *o);
int ctl_destinations(const struct ctl_options *o);
int ctl_top(const struct ctl_options *o);
int ctl_metrics(const struct ctl_options *o);
int ctl_check(const struct ctl_options *o);
int ctl_reload(const struct ctl_options *o);
int ctl_rules(const struct ctl_options *o);

/* Print the client's problem. Returns EXIT_FAILURE. */
int ctl_failed(const struct ctl_client *c);

/* Connect and call a method that has one answer. Returns 0, or -errno after printing why. */
int ctl_get(const struct ctl_options *o, const char *method, struct json_object **ret);

/* Print O as one line. */
void ctl_print_json(struct json_object *o);

/* Destinations, for the subcommands destinations and top (ctl_lists.c). */
struct ctl_destination {
	char *endpoint;
	int64_t records, shifted, refused;
};
struct ctl_destinations {
	struct ctl_destination *list; /* sorted by records, most first */
	size_t n, capacity;
	bool truncated; /* there are more than the daemon lists */
};
/* Returns 0, or -errno with the reason in the client's problem. */
int ctl_fetch_destinations(struct ctl_client *c, struct ctl_destinations *ret);
void ctl_free_destinations(struct ctl_destinations *d);
/* Print a table of the first MAX destinations. */
void ctl_print_destinations(const struct ctl_destinations *d, size_t max, FILE *f, bool aligned);
