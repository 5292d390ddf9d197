// SPDX-License-Identifier: GPL-2.0-or-later
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/serial.h"
#include "gateway_listing.h"
#include "gateway_names.h"
#include "json_util.h"

#define ROWS_PER_ANSWER 64
#define ROWS_AT_FIRST 256

/* A connection, copied until its reader takes it. */
struct connection_row {
	struct tuple tuple;
	uint8_t inside_address[16];
	uint16_t inside_port_be; /* 0: the inside tuple is not known */
	bool has_last;
	const char *state;
	uint32_t shift, last_tsval, idle_ms;
};

struct listing {
	struct gateway_listings *listings;
	const char *field; /* the answer's member that holds the rows */
	size_t row_size, limit;
	struct json_object *(*row_json)(const void *row);
	uint32_t now_ms;
	char *rows;
	size_t count, capacity, next;
	bool closed; /* include closed connections */
	bool truncated;
	int error;
};

void gateway_unavailable(struct varlink_call *call, int error)
{
	struct json_object *o = json_object_new_object();

	json_add_string(o, "reason", strerror(-error));
	json_add_number(o, "errno", (uint64_t)-error);
	varlink_error(call, GATEWAY_INTERFACE ".Unavailable", o);
}

/* Rows */

static void add_address(struct json_object *o, const char *key, const uint8_t address[16])
{
	static const uint8_t ipv4_prefix[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN];

	if (memcmp(address, ipv4_prefix, sizeof(ipv4_prefix)) == 0)
		inet_ntop(AF_INET, address + sizeof(ipv4_prefix), text, sizeof(text));
	else
		inet_ntop(AF_INET6, address, text, sizeof(text));
	json_add_string(o, key, text);
}

static struct json_object *connection_json(const void *row)
{
	const struct connection_row *c = row;
	struct json_object *o = json_object_new_object();

	add_address(o, "external_address", c->tuple.src);
	json_add_number(o, "external_port", ntohs(c->tuple.sport_be));
	add_address(o, "destination_address", c->tuple.dst);
	json_add_number(o, "destination_port", ntohs(c->tuple.dport_be));
	if (c->inside_port_be) {
		add_address(o, "inside_address", c->inside_address);
		json_add_number(o, "inside_port", ntohs(c->inside_port_be));
	}
	json_add_number(o, "shift", c->shift);
	if (c->has_last)
		json_add_number(o, "last_tsval", c->last_tsval);
	json_add_string(o, "state", c->state);
	json_add_number(o, "idle_ms", c->idle_ms);
	return o;
}

static struct json_object *destination_json(const void *row)
{
	const struct gateway_destination *d = row;
	struct json_object *o = json_object_new_object();

	add_address(o, "address", d->addr);
	json_add_number(o, "port", ntohs(d->port_be));
	json_add_number(o, "records", d->records);
	json_add_number(o, "shifted", d->shifted);
	json_add_number(o, "refused", d->refused);
	return o;
}

static bool is_closed(uint32_t state)
{
	const uint32_t fins = RECORD_FIN_OUT | RECORD_FIN_IN;

	return state & RECORD_RESET || (state & fins) == fins;
}

/* A value of ConnectionState in gateway_idl.c. */
static const char *state_name(uint32_t state)
{
	if (is_closed(state))
		return "closed";
	if (state & (RECORD_FIN_OUT | RECORD_FIN_IN))
		return "closing";
	if (state & RECORD_ESTABLISHED)
		return "established";
	return state & RECORD_ANSWERED ? "answered" : "syn_sent";
}

/* Collecting */

/*
 * Room for one more row. NULL: the walk should end, and the listing has the reason in ERROR or
 * TRUNCATED.
 */
static void *listing_add(struct listing *l)
{
	if (l->error)
		return NULL;
	if (l->count == l->limit) {
		l->truncated = true;
		return NULL;
	}
	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? 2 * l->capacity : ROWS_AT_FIRST;
		char *rows = reallocarray(l->rows, capacity, l->row_size);

		if (!rows) {
			l->error = -ENOMEM;
			return NULL;
		}
		l->rows = rows;
		l->capacity = capacity;
	}
	return l->rows + l->count++ * l->row_size;
}

static int collect_connection(void *user, const struct tuple *t, const struct record *r)
{
	struct listing *l = user;
	struct connection_row *row;

	if (r->state & RECORD_DEAD || (is_closed(r->state) && !l->closed))
		return 0;
	row = listing_add(l);
	if (!row)
		return -ENOBUFS;
	*row = (struct connection_row){
		.tuple = *t,
		.inside_port_be = r->inside.sport_be,
		.has_last = !(r->state & RECORD_NO_LAST),
		.state = state_name(r->state),
		.shift = r->shift,
		.last_tsval = RECORD_LAST_TSVAL(r->last),
		.idle_ms = ms_elapsed(l->now_ms, r->seen_ms),
	};
	memcpy(row->inside_address, r->inside.src, sizeof(row->inside_address));
	return 0;
}

static int collect_destination(void *user, const struct gateway_destination *d)
{
	struct gateway_destination *row = listing_add(user);

	if (!row)
		return -ENOBUFS;
	*row = *d;
	return 0;
}

/* Answering */

static void listing_resume(struct varlink_call *call, void *state)
{
	struct listing *l = state;
	struct json_object *rows = json_object_new_array(), *o = json_object_new_object();

	for (int i = 0; i < ROWS_PER_ANSWER && l->next < l->count; i++)
		json_object_array_add(rows, l->row_json(l->rows + l->next++ * l->row_size));
	json_object_object_add(o, l->field, rows);
	if (l->next < l->count) {
		varlink_notify(call, o);
		return;
	}
	json_add_bool(o, "truncated", l->truncated);
	varlink_reply(call, o);
}

static void listing_free(void *state)
{
	struct listing *l = state;

	l->listings->active--;
	free(l->rows);
	free(l);
}

/* Returns NULL when it has answered the call with an error. */
static struct listing *listing_new(struct gateway_listings *listings, struct varlink_call *call)
{
	struct listing *l;

	if (listings->active == GATEWAY_LISTINGS_MAX) {
		struct json_object *o = json_object_new_object();

		json_add_number(o, "limit", GATEWAY_LISTINGS_MAX);
		varlink_error(call, GATEWAY_INTERFACE ".Busy", o);
		return NULL;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		gateway_unavailable(call, -ENOMEM);
		return NULL;
	}
	l->listings = listings;
	l->now_ms = listings->source->now_ms(listings->source_user);
	listings->active++;
	return l;
}

/* Answer from the collected rows. R: the result of the walk. */
static void listing_start(struct listing *l, struct varlink_call *call, int r)
{
	if (l->error)
		r = l->error;
	/* With TRUNCATED, R is only the value with which the full listing ended the walk. */
	if (r < 0 && !l->truncated) {
		listing_free(l);
		gateway_unavailable(call, r);
		return;
	}
	varlink_keep(call, l, listing_resume, listing_free);
}

void gateway_list_connections(struct gateway_listings *listings, struct varlink_call *call,
			      bool closed)
{
	struct listing *l = listing_new(listings, call);

	if (!l)
		return;
	l->field = "connections";
	l->row_size = sizeof(struct connection_row);
	l->limit = GATEWAY_CONNECTIONS_MAX;
	l->row_json = connection_json;
	l->closed = closed;
	listing_start(l, call,
		      listings->source->each_connection(listings->source_user, collect_connection,
							l));
}

void gateway_list_destinations(struct gateway_listings *listings, struct varlink_call *call)
{
	struct listing *l = listing_new(listings, call);

	if (!l)
		return;
	l->field = "destinations";
	l->row_size = sizeof(struct gateway_destination);
	l->limit = GATEWAY_DESTINATIONS_MAX;
	l->row_json = destination_json;
	listing_start(l, call,
		      listings->source->each_destination(listings->source_user, collect_destination,
							 l));
}
