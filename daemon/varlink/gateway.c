// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway.h"
#include "gateway_idl.h"
#include "gateway_listing.h"
#include "gateway_names.h"
#include "json_util.h"
#include "base/util.h"
#include "varlink.h"

/* The answers are no secret. Calls that change something check the caller's user. */
#define SOCKET_MODE 0666
#define MONITOR_ACCURACY_USEC 10000

struct gateway {
	sd_event *event;
	struct varlink_server *server;
	const struct gateway_source *source;
	void *source_user;
	struct gateway_listings listings;
};

/*
 * TEXT with '?' for all bytes but printable ASCII and those in BESIDES: JSON must be UTF-8, but an
 * interface's name may hold any byte.
 */
static struct json_object *printable_json(const char *text, const char *besides)
{
	struct json_object *o;
	char *copy = strdup(text ? text : "");

	if (!copy)
		return NULL;
	for (char *p = copy; *p; p++)
		if ((*p < ' ' || *p > '~') && !strchr(besides, *p))
			*p = '?';
	o = json_object_new_string(copy);
	free(copy);
	return o;
}

static struct json_object *text_json(const char *text)
{
	return printable_json(text, "");
}

static struct json_object *lines_json(const char *text)
{
	return printable_json(text, "\n\t");
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text_json(text));
}

/* Status */

static struct json_object *links_json(const struct gateway_status *s)
{
	struct json_object *links = json_object_new_array();

	for (size_t i = 0; i < s->n_links; i++) {
		struct json_object *o = json_object_new_object();

		add_text(o, "name", s->links[i].name);
		json_add_number(o, "ifindex", s->links[i].ifindex);
		json_add_bool(o, "attached", s->links[i].attached);
		json_object_array_add(links, o);
	}
	return links;
}

static struct json_object *problems_json(const struct gateway_status *s)
{
	struct json_object *problems = json_object_new_array();

	for (size_t i = 0; i < s->n_problems; i++)
		json_object_array_add(problems, text_json(s->problems[i]));
	return problems;
}

static struct json_object *status_json(const struct gateway_status *s)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "version", s->version);
	add_text(o, "datapath", s->datapath);
	add_text(o, "decide", s->decide);
	add_text(o, "policy", s->policy);
	add_text(o, "scope", s->scope);
	add_text(o, "rules", s->rules);
	add_text(o, "mapping", s->mapping);
	json_add_bool(o, "realtime", s->realtime);
	json_add_number(o, "uptime_ms", s->uptime_ms);
	json_add_number(o, "hold_s", s->hold_s);
	json_add_number(o, "records_limit", s->records_limit);
	json_object_object_add(o, "links", links_json(s));
	json_object_object_add(o, "problems", problems_json(s));
	return o;
}

static void get_status(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct gateway *g = user;
	struct gateway_status status = { 0 };
	int r = g->source->status(g->source_user, &status);

	(void)parameters;
	if (r < 0)
		gateway_unavailable(call, r);
	else
		varlink_reply(call, status_json(&status));
}

/* Statistics */

enum gauge {
#define GAUGE_ENUM(upper, lower, text) GAUGE_##upper,
	GATEWAY_GAUGES(GAUGE_ENUM, GAUGE_ENUM) GAUGE_COUNT
#undef GAUGE_ENUM
};

#define LOWER_NAME(upper, lower, text) #lower,
static const char *const counter_names[] = { COUNTERS(COUNTER_NAME) };
static const char *const gauge_names[] = { GATEWAY_GAUGES(LOWER_NAME, LOWER_NAME) };
#undef LOWER_NAME
static_assert(ARRAY_SIZE(counter_names) == COUNTER_COUNT, "a name for each counter");
static_assert(ARRAY_SIZE(gauge_names) == GAUGE_COUNT, "a name for each gauge");

/* Not below 0: packets pass while the counters are read, so LESS may have overtaken MORE. */
static uint64_t difference(uint64_t more, uint64_t less)
{
	return more > less ? more - less : 0;
}

static int statistics_json(struct gateway *g, struct json_object **ret)
{
	uint64_t counters[COUNTER_COUNT] = { 0 }, gauges[GAUGE_COUNT];
	int r = g->source->statistics(g->source_user, counters);
	struct json_object *o;

	if (r < 0)
		return r;
	gauges[GAUGE_CONNECTIONS_SHIFTED] =
		difference(counters[COUNTER_SHIFTS_STARTED], counters[COUNTER_SHIFTS_ENDED]);
	gauges[GAUGE_RECORDS] =
		difference(counters[COUNTER_RECORDS_CREATED], counters[COUNTER_RECORDS_REMOVED]);
	o = json_object_new_object();
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		json_add_number(o, counter_names[i], counters[i]);
	for (size_t i = 0; i < GAUGE_COUNT; i++)
		json_add_number(o, gauge_names[i], gauges[i]);
	*ret = o;
	return 0;
}

static void get_statistics(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct json_object *o;
	int r = statistics_json(user, &o);

	(void)parameters;
	if (r < 0)
		gateway_unavailable(call, r);
	else
		varlink_reply(call, o);
}

struct monitor {
	struct gateway *gateway;
	struct varlink_call *call;
	sd_event_source *timer;
	uint64_t interval_usec;
};

static int monitor_tick(struct monitor *m)
{
	struct json_object *o;
	int r;

	if (!varlink_has_room(m->call))
		return 0;
	r = statistics_json(m->gateway, &o);
	if (r < 0)
		return r;
	varlink_notify(m->call, o);
	return 0;
}

static int monitor_tick_and_rearm(struct monitor *m)
{
	int r = monitor_tick(m);

	if (r < 0)
		return r;
	r = sd_event_source_set_time_relative(m->timer, m->interval_usec);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(m->timer, SD_EVENT_ONESHOT);
}

static int on_monitor_timer(sd_event_source *timer, uint64_t usec, void *user)
{
	struct monitor *m = user;
	int r = monitor_tick_and_rearm(m);

	(void)timer;
	(void)usec;
	if (r < 0)
		gateway_unavailable(m->call, r);
	return 0;
}

static void monitor_free(void *state)
{
	struct monitor *m = state;

	sd_event_source_disable_unref(m->timer);
	free(m);
}

/* The first answer comes at once. */
static int monitor_start(struct monitor *m, sd_event *event)
{
	int r;

	r = sd_event_add_time_relative(event, &m->timer, CLOCK_MONOTONIC, m->interval_usec,
				       MONITOR_ACCURACY_USEC, on_monitor_timer, m);
	if (r < 0)
		return r;
	r = sd_event_source_set_priority(m->timer, SD_EVENT_PRIORITY_IDLE);
	if (r < 0)
		return r;
	return monitor_tick(m);
}

static int monitor_new(struct gateway *g, struct varlink_call *call, uint64_t interval_s)
{
	struct monitor *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	*m = (struct monitor){ .gateway = g, .call = call, .interval_usec = interval_s * 1000000 };
	r = monitor_start(m, g->event);
	if (r < 0) {
		monitor_free(m);
		return r;
	}
	varlink_keep(call, m, NULL, monitor_free);
	return 0;
}

static void monitor(struct varlink_call *call, struct json_object *parameters, void *user)
{
	int64_t interval_s = json_get_number(parameters, "interval_s");
	int r;

	if (interval_s < GATEWAY_INTERVAL_MIN_S || interval_s > GATEWAY_INTERVAL_MAX_S) {
		varlink_invalid_parameter(call, "interval_s");
		return;
	}
	r = monitor_new(user, call, (uint64_t)interval_s);
	if (r < 0)
		gateway_unavailable(call, r);
}

/* Listings */

static void list_connections(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct gateway *g = user;
	struct json_object *closed = json_object_object_get(parameters, "closed");

	gateway_list_connections(&g->listings, call, json_object_get_boolean(closed));
}

static void list_destinations(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct gateway *g = user;

	(void)parameters;
	gateway_list_destinations(&g->listings, call);
}

/* Rules */

static int rules_text(struct gateway *g, char **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t length;
	FILE *f = open_memstream(&text, &length);
	int r;

	if (!f)
		return -ENOMEM;
	r = g->source->rules(g->source_user, f);
	if (fclose(f) != 0 && r >= 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	*ret = text;
	text = NULL;
	return 0;
}

static void get_rules(struct varlink_call *call, struct json_object *parameters, void *user)
{
	_cleanup_free_ char *text = NULL;
	struct json_object *o;
	int r = rules_text(user, &text);

	(void)parameters;
	if (r < 0) {
		gateway_unavailable(call, r);
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "nft", lines_json(text));
	varlink_reply(call, o);
}

/* Reload */

static void add_line(void *user, const char *line)
{
	json_object_array_add(user, text_json(line));
}

struct reload_lines {
	struct json_object *problems, *needs_restart;
};

static void add_reload_problem(void *user, const char *line)
{
	add_line(((struct reload_lines *)user)->problems, line);
}

static void add_needs_restart(void *user, const char *option)
{
	add_line(((struct reload_lines *)user)->needs_restart, option);
}

static void answer_reload(struct varlink_call *call, int r, const struct reload_lines *lines)
{
	struct json_object *o = json_object_new_object();

	if (r == -EINVAL) {
		json_object_object_add(o, "problems", json_object_get(lines->problems));
		varlink_error(call, GATEWAY_INTERFACE ".ConfigurationInvalid", o);
	} else if (r < 0) {
		json_object_put(o);
		gateway_unavailable(call, r);
	} else {
		json_object_object_add(o, "needs_restart", json_object_get(lines->needs_restart));
		varlink_reply(call, o);
	}
}

/* Root and the user that the daemon runs as, as in systemd's own services. */
static bool may_reload(const struct varlink_call *call)
{
	const uid_t uid = varlink_call_uid(call);

	return uid == 0 || uid == geteuid();
}

static void reload(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct gateway *g = user;
	struct reload_lines lines = { json_object_new_array(), json_object_new_array() };
	const struct reload_listener listener = { add_reload_problem, add_needs_restart, &lines };

	(void)parameters;
	if (may_reload(call))
		answer_reload(call, g->source->reload(g->source_user, &listener), &lines);
	else
		varlink_permission_denied(call);
	json_object_put(lines.problems);
	json_object_put(lines.needs_restart);
}

/* The interface */

static const struct varlink_parameter monitor_parameters[] = {
	{ "interval_s", json_type_int, false },
	{ 0 },
};

static const struct varlink_parameter connections_parameters[] = {
	{ "closed", json_type_boolean, true },
	{ 0 },
};

static const struct varlink_method methods[] = {
	{ .name = "GetStatus", .run = get_status },
	{ .name = "GetStatistics", .run = get_statistics },
	{ .name = "Monitor", .run = monitor, .parameters = monitor_parameters, .needs_more = true },
	{ .name = "ListConnections",
	  .run = list_connections,
	  .parameters = connections_parameters,
	  .needs_more = true },
	{ .name = "ListDestinations", .run = list_destinations, .needs_more = true },
	{ .name = "GetRules", .run = get_rules },
	{ .name = "Reload", .run = reload },
	{ 0 },
};

static const struct varlink_interface interface = { GATEWAY_INTERFACE, gateway_idl, methods };
static const struct varlink_interface *const interfaces[] = { &interface, NULL };

static int start_server(struct gateway *g, const char *path)
{
	const struct varlink_config config = {
		.vendor = "tsnatd",
		.product = "tsnatd",
		.version = VERSION,
		.url = "man:tsnatd(8)",
		.interfaces = interfaces,
		.user = g,
	};
	int r = varlink_server_new(&g->server, g->event, &config);

	if (r < 0)
		return r;
	return varlink_server_listen(g->server, path, SOCKET_MODE);
}

int gateway_new(struct gateway **ret, sd_event *event, const char *path,
		const struct gateway_source *source, void *user)
{
	struct gateway *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return -ENOMEM;
	*g = (struct gateway){
		.source = source,
		.source_user = user,
		.event = sd_event_ref(event),
		.listings = { .source = source, .source_user = user },
	};
	r = start_server(g, path);
	if (r < 0) {
		gateway_free(g);
		return r;
	}
	*ret = g;
	return 0;
}

void gateway_free(struct gateway *g)
{
	if (!g)
		return;
	varlink_server_free(g->server);
	sd_event_unref(g->event);
	free(g);
}
