// SPDX-License-Identifier: GPL-2.0-or-later
/* ctl_lists.c - the subcommands connections and destinations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_print.h"
#include "varlink/gateway_names.h"
#include "varlink/json_util.h"
#include "base/util.h"

/*
 * Lists are read to their end before the first line is printed. So the daemon does not wait for a
 * pager, and an error in between prints no part of a list.
 */
struct list {
	const char *field;		/* with the rows, in each answer */
	struct json_object *parameters; /* of the call, which takes them over; or NULL */
	void (*add)(void *user, struct json_object *row);
	void *user;
	bool truncated;
};

static int take_rows(void *user, struct json_object *answer)
{
	struct list *l = user;
	struct json_object *rows = json_object_object_get(answer, l->field);

	if (json_object_is_type(rows, json_type_array))
		for (size_t i = 0; i < json_object_array_length(rows); i++)
			l->add(l->user, json_object_array_get_idx(rows, i));
	if (json_object_get_boolean(json_object_object_get(answer, "truncated")))
		l->truncated = true;
	return 0;
}

static void print_truncated(const char *rows, bool truncated)
{
	if (truncated)
		fprintf(stderr, "tsnatctl: there are more %s than can be listed\n", rows);
}

static int open_and_list(struct ctl_client *c, const char *path, const char *method, struct list *l)
{
	int r = ctl_open(c, path, NULL);

	if (r < 0) {
		json_object_put(l->parameters);
		return r;
	}
	return ctl_call_more(c, method, l->parameters, take_rows, l);
}

/* Returns 0, or -errno after printing why. */
static int run_list(const struct ctl_options *o, const char *method, struct list *l)
{
	_cleanup_ctl_close_ struct ctl_client client = { .fd = -1 };
	int r = open_and_list(&client, o->socket, method, l);

	if (r < 0)
		ctl_failed(&client);
	return r;
}

/* JSON */

struct json_rows {
	FILE *file;
	const char *separator;
};

static void add_json(void *user, struct json_object *row)
{
	struct json_rows *rows = user;

	fprintf(rows->file, "%s%s", rows->separator,
		json_object_to_json_string_ext(row, JSON_C_TO_STRING_PLAIN |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	rows->separator = ",\n";
}

/* Print one object, with a line for each row. */
static int list_json(const struct ctl_options *o, const char *method, const char *field,
		     struct json_object *parameters)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	struct json_rows rows = { .file = check_memory(open_memstream(&text, &length)),
				  .separator = "" };
	struct list l = {
		.field = field, .parameters = parameters, .add = add_json, .user = &rows
	};
	int r = run_list(o, method, &l);

	fclose(rows.file);
	if (r < 0)
		return EXIT_FAILURE;
	printf("{\"%s\":[%s],\"truncated\":%s}\n", field, text, l.truncated ? "true" : "false");
	return EXIT_SUCCESS;
}

/* Connections */

static const struct column connection_columns[] = {
	{ "external", false },	{ "destination", false }, { "inside", false }, { "shift", true },
	{ "last TSval", true }, { "state", false },	  { "idle ms", true },
};

static void add_endpoint(struct table *t, struct json_object *row, const char *address_key,
			 const char *port_key)
{
	const char *address = json_get_string(row, address_key);
	char buf[ENDPOINT_MAX];

	table_add(t,
		  address ? format_endpoint(buf, address, json_get_number(row, port_key)) : NULL);
}

static void add_state(struct table *t, struct json_object *row)
{
	const char *state = json_get_string(row, "state");
	char *copy = check_memory(strdup(state ? state : "-"));

	/* varlink's names cannot have a hyphen */
	for (char *p = copy; *p; p++)
		if (*p == '_')
			*p = '-';
	table_add(t, copy);
	free(copy);
}

static void add_connection(void *user, struct json_object *row)
{
	struct table *t = user;

	add_endpoint(t, row, "external_address", "external_port");
	add_endpoint(t, row, "destination_address", "destination_port");
	add_endpoint(t, row, "inside_address", "inside_port");
	table_add_number(t, json_get_number(row, "shift"));
	if (json_object_object_get(row, "last_tsval"))
		table_add_number(t, json_get_number(row, "last_tsval"));
	else
		table_add(t, NULL);
	add_state(t, row);
	table_add_number(t, json_get_number(row, "idle_ms"));
}

/* Without --all, the daemon leaves out closed connections, which are most of the records. */
static struct json_object *connections_parameters(const struct ctl_options *o)
{
	struct json_object *parameters = o->all ? json_object_new_object() : NULL;

	if (parameters)
		json_add_bool(parameters, "closed", true);
	return parameters;
}

int ctl_connections(const struct ctl_options *o)
{
	struct table t;
	struct list l = { .field = "connections", .add = add_connection, .user = &t };

	if (o->json)
		return list_json(o, GATEWAY_INTERFACE ".ListConnections", "connections",
				 connections_parameters(o));
	l.parameters = connections_parameters(o);
	table_init(&t, connection_columns, ARRAY_SIZE(connection_columns));
	if (run_list(o, GATEWAY_INTERFACE ".ListConnections", &l) < 0) {
		table_free(&t);
		return EXIT_FAILURE;
	}
	table_print(&t, stdout, o->aligned);
	print_truncated("connections", l.truncated);
	table_free(&t);
	return EXIT_SUCCESS;
}

/* Destinations */

static const struct column destination_columns[] = {
	{ "destination", false },
	{ "records", true },
	{ "shifted", true },
	{ "refused", true },
};

static void add_destination(void *user, struct json_object *row)
{
	struct ctl_destinations *d = user;
	const char *address = json_get_string(row, "address");
	char buf[ENDPOINT_MAX];

	if (d->n == d->capacity) {
		d->capacity = d->capacity ? 2 * d->capacity : 64;
		d->list = check_memory(reallocarray(d->list, d->capacity, sizeof(*d->list)));
	}
	format_endpoint(buf, address ? address : "-", json_get_number(row, "port"));
	d->list[d->n++] = (struct ctl_destination){
		.endpoint = check_memory(strdup(buf)),
		.records = json_get_number(row, "records"),
		.shifted = json_get_number(row, "shifted"),
		.refused = json_get_number(row, "refused"),
	};
}

static int by_records(const void *a, const void *b)
{
	const struct ctl_destination *x = a, *y = b;

	if (x->records != y->records)
		return x->records < y->records ? 1 : -1;
	return strcmp(x->endpoint, y->endpoint);
}

int ctl_fetch_destinations(struct ctl_client *c, struct ctl_destinations *ret)
{
	struct ctl_destinations d = { 0 };
	struct list l = { .field = "destinations", .add = add_destination, .user = &d };
	int r = ctl_call_more(c, GATEWAY_INTERFACE ".ListDestinations", NULL, take_rows, &l);

	if (r < 0) {
		ctl_free_destinations(&d);
		return r;
	}
	if (d.n)
		qsort(d.list, d.n, sizeof(*d.list), by_records);
	d.truncated = l.truncated;
	*ret = d;
	return 0;
}

void ctl_free_destinations(struct ctl_destinations *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->list[i].endpoint);
	free(d->list);
}

void ctl_print_destinations(const struct ctl_destinations *d, size_t max, FILE *f, bool aligned)
{
	struct table t;

	table_init(&t, destination_columns, ARRAY_SIZE(destination_columns));
	for (size_t i = 0; i < d->n && i < max; i++) {
		table_add(&t, d->list[i].endpoint);
		table_add_number(&t, d->list[i].records);
		table_add_number(&t, d->list[i].shifted);
		table_add_number(&t, d->list[i].refused);
	}
	table_print(&t, f, aligned);
	table_free(&t);
}

int ctl_destinations(const struct ctl_options *o)
{
	_cleanup_ctl_close_ struct ctl_client client = { .fd = -1 };
	struct ctl_destinations d;

	if (o->json)
		return list_json(o, GATEWAY_INTERFACE ".ListDestinations", "destinations", NULL);
	if (ctl_open(&client, o->socket, NULL) < 0 || ctl_fetch_destinations(&client, &d) < 0)
		return ctl_failed(&client);
	ctl_print_destinations(&d, d.n, stdout, o->aligned);
	print_truncated("destinations", d.truncated);
	ctl_free_destinations(&d);
	return EXIT_SUCCESS;
}
