// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gateway.c with a source that makes things up, and tsnatctl as its client: the one built beside
 * the tests, or what TSNATCTL in the environment names.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "gateway.h"
#include "gateway_listing.h"
#include "gateway_names.h"
#include "varlink-peer.h"

#define CALL(method) "{\"method\":\"" GATEWAY_INTERFACE "." method "\"}"
#define CALL_MORE(method) "{\"method\":\"" GATEWAY_INTERFACE "." method "\",\"more\":true}"
#define LIST_ALL                           \
	"{\"method\":\"" GATEWAY_INTERFACE \
	".ListConnections\",\"parameters\":{\"closed\":true},\"more\":true}"
#define NOW_MS 5000000u

struct fixture {
	struct peer_place place;
	sd_event *event;
	struct gateway *gateway;
	/* what the source tells */
	uint64_t counters[COUNTER_COUNT];
	uint32_t connections, destinations;
	int error;
	const char *problem;
	uint32_t walked;
	const char *bad_line, *needs_restart; /* or NULL */
	unsigned int reloads;
};

/* The source */

static int source_statistics(void *user, uint64_t ret[COUNTER_COUNT])
{
	struct fixture *f = user;

	memcpy(ret, f->counters, sizeof(f->counters));
	return f->error;
}

static int source_status(void *user, struct gateway_status *ret)
{
	static const struct gateway_link links[] = { { "eth0", 2, true },
						     { "ppp0", 0, false },
						     { "we\xe9rd\n", 7, false } };
	struct fixture *f = user;

	*ret = (struct gateway_status){
		.version = "1.2.3",
		.datapath = "bpf",
		.decide = "queue",
		.policy = "repair",
		.scope = "destination",
		.rules = "NFQUEUE",
		.mapping = "events",
		.realtime = true,
		.uptime_ms = 90061000,
		.hold_s = 300,
		.records_limit = 262144,
		.links = links,
		.n_links = ARRAY_SIZE(links),
		.problems = &f->problem,
		.n_problems = f->problem ? 1 : 0,
	};
	return f->error;
}

static void set_ipv4(uint8_t address[16], uint32_t host_order)
{
	uint32_t be = htonl(host_order);

	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	memcpy(address + 12, &be, 4);
}

/* The first few show all there can be, the rest are for numbers. */
static void make_connection(uint32_t i, struct tuple *t, struct record *r)
{
	*r = (struct record){ .seen_ms = NOW_MS - i,
			      .shift = i,
			      .last = RECORD_LAST(1000 + i, NOW_MS - i) };
	*t = (struct tuple){ .sport_be = htons((uint16_t)(1024 + i)), .dport_be = htons(443) };
	set_ipv4(t->src, 0xc0000201); /* 192.0.2.1 */
	set_ipv4(t->dst, 0xc6336401); /* 198.51.100.1 */
	switch (i) {
	case 0:
		r->state = RECORD_NO_LAST;
		break;
	case 1:
		r->state = RECORD_ANSWERED;
		inet_pton(AF_INET6, "2001:db8::1", t->src);
		inet_pton(AF_INET6, "2001:db8:ffff::2", t->dst);
		inet_pton(AF_INET6, "fd00::3", r->inside.src);
		r->inside.sport_be = htons(5555);
		break;
	case 2:
		r->state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_LIVE |
			   5 * RECORD_GENERATION;
		r->shift = 0xfffffff0;
		set_ipv4(r->inside.src, 0x0a000001);
		r->inside.sport_be = htons(40000);
		break;
	case 3:
		r->state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT;
		break;
	case 4:
		r->state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN;
		break;
	case 5:
		r->state = RECORD_RESET;
		break;
	case 6:
		r->state = RECORD_ESTABLISHED | RECORD_DEAD;
		break;
	}
}

static int source_each_connection(void *user, gateway_connection_fn *fn, void *fn_user)
{
	struct fixture *f = user;
	int r = 0;

	for (f->walked = 0; f->walked < f->connections && !r; f->walked++) {
		struct tuple t;
		struct record record;

		make_connection(f->walked, &t, &record);
		r = fn(fn_user, &t, &record);
	}
	return r ? r : f->error;
}

static int source_each_destination(void *user, gateway_destination_fn *fn, void *fn_user)
{
	struct fixture *f = user;
	int r = 0;

	for (uint32_t i = 0; i < f->destinations && !r; i++) {
		struct gateway_destination d = {
			.port_be = htons(443), .records = 10 + i, .shifted = i, .refused = 1
		};

		set_ipv4(d.addr, 0xc6336401 + i);
		r = fn(fn_user, &d);
	}
	return r ? r : f->error;
}

static uint32_t source_now_ms(void *user)
{
	(void)user;
	return NOW_MS;
}

static int source_rules(void *user, FILE *f)
{
	struct fixture *f_ = user;

	fputs("table ip tsnatd {\n\tset \"we\xe9rd\"\n}\n", f);
	return f_->error;
}

static int source_reload(void *user, const struct reload_report *report)
{
	struct fixture *f = user;

	f->reloads++;
	if (f->bad_line) {
		report->problem(report->user, f->bad_line);
		report->problem(report->user, "the second one");
		return -EINVAL;
	}
	if (f->needs_restart)
		report->needs_restart(report->user, f->needs_restart);
	return f->error;
}

static const struct gateway_source source = {
	.statistics = source_statistics,
	.status = source_status,
	.each_connection = source_each_connection,
	.each_destination = source_each_destination,
	.now_ms = source_now_ms,
	.rules = source_rules,
	.reload = source_reload,
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	peer_place_make(&f->place);
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		f->counters[i] = 1000 + i;
	f->counters[COUNTER_SHIFTS_STARTED] = 50;
	f->counters[COUNTER_SHIFTS_ENDED] = 20;
	f->counters[COUNTER_RECORDS_CREATED] = 70;
	f->counters[COUNTER_RECORDS_REMOVED] = 10;
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(gateway_new(&f->gateway, f->event, f->place.path, &source, f), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	gateway_free(f->gateway);
	sd_event_unref(f->event);
	peer_place_remove(&f->place);
	free(f);
	return 0;
}

/* The parameters of the answer, which must be no error, and whether more answers follow. */
static struct json_object *next_parameters(struct peer *p, bool *ret_continues)
{
	const char *text = peer_next(p);
	struct json_object *message, *parameters;

	assert_non_null(text);
	message = json_tokener_parse(text);
	assert_non_null(message);
	assert_null(json_object_object_get(message, "error"));
	*ret_continues = json_object_get_boolean(json_object_object_get(message, "continues"));
	parameters = json_object_get(json_object_object_get(message, "parameters"));
	json_object_put(message);
	return parameters;
}

static struct json_object *ask(struct fixture *f, const char *call)
{
	struct json_object *parameters;
	bool continues;
	struct peer p;

	peer_open(&p, f->event, f->place.path);
	peer_send(&p, call);
	parameters = next_parameters(&p, &continues);
	assert_false(continues);
	peer_close(&p);
	return parameters;
}

static int64_t number(struct json_object *o, const char *key)
{
	struct json_object *value = json_object_object_get(o, key);

	if (!json_object_is_type(value, json_type_int))
		fail_msg("no number %s", key);
	return json_object_get_int64(value);
}

static void expect_error(struct fixture *f, const char *call, const char *error)
{
	char start[200];
	struct peer p;

	snprintf(start, sizeof(start), "{\"error\":\"%s\"", error);
	peer_open(&p, f->event, f->place.path);
	peer_send(&p, call);
	assert_memory_equal(peer_next(&p), start, strlen(start));
	peer_close(&p);
}

/* Statistics */

#define LOWER_NAME(upper, lower, text) #lower,
static const char *const counter_names[] = { COUNTERS(LOWER_NAME) };
static const char *const gauge_names[] = { GATEWAY_GAUGES(LOWER_NAME, LOWER_NAME) };

static void expect_statistics(struct json_object *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(counter_names); i++) {
		int64_t expected = i == COUNTER_SHIFTS_STARTED	  ? 50
				   : i == COUNTER_SHIFTS_ENDED	  ? 20
				   : i == COUNTER_RECORDS_CREATED ? 70
				   : i == COUNTER_RECORDS_REMOVED ? 10
								  : 1000 + (int64_t)i;

		assert_int_equal(number(o, counter_names[i]), expected);
	}
	assert_int_equal(number(o, "connections_shifted"), 30);
	assert_int_equal(number(o, "records"), 60);
	assert_int_equal(json_object_object_length(o), COUNTER_COUNT + ARRAY_SIZE(gauge_names));
}

static void tells_all_counters(void **state)
{
	struct json_object *o = ask(*state, CALL("GetStatistics"));

	expect_statistics(o);
	json_object_put(o);
}

static void gauges_are_never_negative(void **state)
{
	struct fixture *f = *state;
	struct json_object *o;

	f->counters[COUNTER_SHIFTS_ENDED] = 51;
	f->counters[COUNTER_RECORDS_REMOVED] = 71;
	f->counters[COUNTER_VERDICTS] = UINT64_MAX;
	o = ask(f, CALL("GetStatistics"));
	assert_int_equal(number(o, "connections_shifted"), 0);
	assert_int_equal(number(o, "records"), 0);
	assert_int_equal(number(o, "verdicts"), INT64_MAX);
	json_object_put(o);
}

static void monitors(void **state)
{
	struct fixture *f = *state;
	uint64_t start = boot_ms();
	struct peer p;

	peer_open(&p, f->event, f->place.path);
	peer_send(&p, "{\"method\":\"" GATEWAY_INTERFACE
		      ".Monitor\",\"parameters\":{\"interval_s\":1},\"more\":true}");
	for (int i = 0; i < 3; i++) {
		bool continues;
		struct json_object *o = next_parameters(&p, &continues);

		expect_statistics(o);
		assert_true(continues);
		json_object_put(o);
	}
	assert_in_range(boot_ms() - start, 2000, 10000);
	/* what cannot be found out ends it */
	f->error = -EIO;
	assert_string_equal(peer_next(&p),
			    "{\"error\":\"" GATEWAY_INTERFACE ".Unavailable\","
			    "\"parameters\":{\"reason\":\"Input/output error\",\"errno\":5}}");
	peer_send(&p, CALL_MORE("Monitor"));
	assert_non_null(strstr(peer_next(&p), "InvalidParameter"));
	peer_close(&p);
}

static void monitor_ends_with_its_reader(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	peer_open(&p, f->event, f->place.path);
	peer_send(&p, "{\"method\":\"" GATEWAY_INTERFACE
		      ".Monitor\",\"parameters\":{\"interval_s\":1},\"more\":true}");
	assert_non_null(peer_next(&p));
	peer_close(&p);
	peer_run_server_ms(f->event, 1200);
}

static void refuses_bad_intervals(void **state)
{
	static const char *const intervals[] = {
		"0",	      "-1", "3601", "1.5", "\"1\"", "null", "true", "18446744073709551617",
		"4294967297",
	};

	for (size_t i = 0; i < ARRAY_SIZE(intervals); i++) {
		char call[200];

		snprintf(call, sizeof(call),
			 "{\"method\":\"" GATEWAY_INTERFACE
			 ".Monitor\",\"parameters\":{\"interval_s\":%s},\"more\":true}",
			 intervals[i]);
		expect_error(*state, call, "org.varlink.service.InvalidParameter");
	}
}

/* Status */

static void tells_its_status(void **state)
{
	struct fixture *f = *state;
	struct json_object *o;

	f->problem = "the rules are missing";
	o = ask(f, CALL("GetStatus"));
	assert_string_equal(
		json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
		"{\"version\":\"1.2.3\",\"datapath\":\"bpf\",\"decide\":\"queue\",\"policy\":"
		"\"repair\","
		"\"scope\":\"destination\",\"rules\":\"NFQUEUE\",\"mapping\":\"events\","
		"\"realtime\":true,"
		"\"uptime_ms\":90061000,\"hold_s\":300,\"records_limit\":262144,\"links\":["
		"{\"name\":\"eth0\",\"ifindex\":2,\"attached\":true},"
		"{\"name\":\"ppp0\",\"ifindex\":0,\"attached\":false},"
		"{\"name\":\"we?rd?\",\"ifindex\":7,\"attached\":false}],"
		"\"problems\":[\"the rules are missing\"]}");
	json_object_put(o);
}

static void tells_what_is_unavailable(void **state)
{
	static const char *const calls[] = {
		CALL("GetStatus"),
		CALL("GetStatistics"),
		CALL("GetRules"),
		CALL("Reload"),
		CALL_MORE("ListConnections"),
		CALL_MORE("ListDestinations"),
		"{\"method\":\"" GATEWAY_INTERFACE
		".Monitor\",\"parameters\":{\"interval_s\":1},\"more\":true}",
	};
	struct fixture *f = *state;

	f->error = -EIO;
	f->connections = f->destinations = 10;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		expect_error(f, calls[i], GATEWAY_INTERFACE ".Unavailable");
}

static void long_answers_need_more(void **state)
{
	expect_error(*state, CALL("ListConnections"), "org.varlink.service.ExpectedMore");
	expect_error(*state, CALL("ListDestinations"), "org.varlink.service.ExpectedMore");
	expect_error(*state,
		     "{\"method\":\"" GATEWAY_INTERFACE
		     ".Monitor\",\"parameters\":{\"interval_s\":1}}",
		     "org.varlink.service.ExpectedMore");
}

/* Rules and reload */

static void expect_answer(struct fixture *f, const char *call, const char *answer)
{
	struct peer p;

	peer_open(&p, f->event, f->place.path);
	peer_send(&p, call);
	peer_expect(&p, answer);
	peer_close(&p);
}

static void tells_its_rules(void **state)
{
	expect_answer(
		*state, CALL("GetRules"),
		"{\"parameters\":{\"nft\":\"table ip tsnatd {\\n\\tset \\\"we?rd\\\"\\n}\\n\"}}");
}

static void reloads(void **state)
{
	struct fixture *f = *state;

	expect_answer(f, CALL("Reload"), "{\"parameters\":{\"needs_restart\":[]}}");
	f->needs_restart = "records";
	expect_answer(f, CALL("Reload"), "{\"parameters\":{\"needs_restart\":[\"records\"]}}");
	assert_int_equal(f->reloads, 2);
}

static void tells_all_that_is_wrong_with_a_configuration(void **state)
{
	struct fixture *f = *state;

	f->bad_line = "x.conf:1: hold: no\xff";
	expect_answer(f, CALL("Reload"),
		      "{\"error\":\"" GATEWAY_INTERFACE
		      ".ConfigurationInvalid\",\"parameters\":{\"problems\":["
		      "\"x.conf:1: hold: no?\",\"the second one\"]}}");
	assert_int_equal(f->reloads, 1);
}

/* A socket's peer is who connected, whatever it becomes later. */
static void only_root_and_the_own_user_may_reload(void **state)
{
	static const uid_t nobody = 65534;
	struct fixture *f = *state;
	struct peer other, own;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(f->place.dir, 0755), 0);
	assert_int_equal(seteuid(nobody), 0);
	peer_open(&other, f->event, f->place.path);
	assert_int_equal(seteuid(0), 0);
	peer_send(&other, CALL("Reload"));
	peer_expect(&other,
		    "{\"error\":\"org.varlink.service.PermissionDenied\",\"parameters\":{}}");
	peer_send(&other, CALL("GetRules"));
	assert_non_null(strstr(peer_next(&other), "{\"parameters\":{\"nft\":"));
	assert_int_equal(f->reloads, 0);

	assert_int_equal(seteuid(nobody), 0);
	peer_open(&own, f->event, f->place.path);
	peer_send(&own, CALL("Reload"));
	peer_expect(&own, "{\"parameters\":{\"needs_restart\":[]}}");
	assert_int_equal(seteuid(0), 0);
	peer_close(&other);
	peer_close(&own);
}

/* Listings */

/* Read a listing to its end. Returns how many rows it had; FN (or NULL) sees each. */
static size_t read_listing(struct peer *p, const char *field,
			   void (*fn)(size_t i, struct json_object *row), bool *ret_truncated)
{
	size_t n = 0;
	bool continues;

	do {
		struct json_object *o = next_parameters(p, &continues),
				   *rows = json_object_object_get(o, field);
		struct json_object *truncated = json_object_object_get(o, "truncated");

		assert_true(json_object_is_type(rows, json_type_array));
		for (size_t i = 0; i < json_object_array_length(rows); i++, n++)
			if (fn)
				fn(n, json_object_array_get_idx(rows, i));
		assert_int_equal(truncated != NULL, !continues);
		*ret_truncated = json_object_get_boolean(truncated);
		json_object_put(o);
	} while (continues);
	return n;
}

static size_t list(struct fixture *f, const char *call, const char *field,
		   void (*fn)(size_t i, struct json_object *row), bool *ret_truncated)
{
	struct peer p;
	size_t n;

	peer_open(&p, f->event, f->place.path);
	peer_send(&p, call);
	n = read_listing(&p, field, fn, ret_truncated);
	peer_close(&p);
	return n;
}

static void expect_connection(size_t i, struct json_object *row)
{
	static const char *const expected[] = {
		"{\"external_address\":\"192.0.2.1\",\"external_port\":1024,\"destination_"
		"address\":\"198.51.100.1\","
		"\"destination_port\":443,\"shift\":0,\"state\":\"syn_sent\",\"idle_ms\":0}",
		"{\"external_address\":\"2001:db8::1\",\"external_port\":1025,\"destination_"
		"address\":\"2001:db8:ffff::2\","
		"\"destination_port\":443,\"inside_address\":\"fd00::3\",\"inside_port\":5555,"
		"\"shift\":1,"
		"\"last_tsval\":1001,\"state\":\"answered\",\"idle_ms\":1}",
		"{\"external_address\":\"192.0.2.1\",\"external_port\":1026,\"destination_"
		"address\":\"198.51.100.1\","
		"\"destination_port\":443,\"inside_address\":\"10.0.0.1\",\"inside_port\":40000,"
		"\"shift\":4294967280,"
		"\"last_tsval\":1002,\"state\":\"established\",\"idle_ms\":2}",
		"{\"external_address\":\"192.0.2.1\",\"external_port\":1027,\"destination_"
		"address\":\"198.51.100.1\","
		"\"destination_port\":443,\"shift\":3,\"last_tsval\":1003,\"state\":\"closing\","
		"\"idle_ms\":3}",
		"{\"external_address\":\"192.0.2.1\",\"external_port\":1028,\"destination_"
		"address\":\"198.51.100.1\","
		"\"destination_port\":443,\"shift\":4,\"last_tsval\":1004,\"state\":\"closed\","
		"\"idle_ms\":4}",
		"{\"external_address\":\"192.0.2.1\",\"external_port\":1029,\"destination_"
		"address\":\"198.51.100.1\","
		"\"destination_port\":443,\"shift\":5,\"last_tsval\":1005,\"state\":\"closed\","
		"\"idle_ms\":5}",
	};

	if (i < ARRAY_SIZE(expected))
		assert_string_equal(json_object_to_json_string_ext(row, JSON_C_TO_STRING_PLAIN),
				    expected[i]);
	else /* the seventh is being removed, and not listed */
		assert_int_equal(number(row, "idle_ms"), i + 1);
}

static void lists_no_connections(void **state)
{
	struct peer p;
	struct fixture *f = *state;

	peer_open(&p, f->event, f->place.path);
	peer_send(&p, CALL_MORE("ListConnections"));
	peer_expect(&p, "{\"parameters\":{\"connections\":[],\"truncated\":false}}");
	peer_close(&p);
}

static void lists_connections(void **state)
{
	struct fixture *f = *state;
	bool truncated;

	f->connections = 1000;
	assert_int_equal(list(f, LIST_ALL, "connections", expect_connection, &truncated), 999);
	assert_false(truncated);
}

static void expect_open(size_t i, struct json_object *row)
{
	(void)i;
	assert_string_not_equal(json_object_get_string(json_object_object_get(row, "state")),
				"closed");
}

static void lists_open_connections_unless_asked_for_all(void **state)
{
	struct fixture *f = *state;
	bool truncated;

	f->connections = 100;
	assert_int_equal(
		list(f, CALL_MORE("ListConnections"), "connections", expect_open, &truncated), 97);
	assert_int_equal(list(f,
			      "{\"method\":\"" GATEWAY_INTERFACE
			      ".ListConnections\",\"parameters\":{\"closed\":null},\"more\":true}",
			      "connections", expect_open, &truncated),
			 97);
	expect_error(f,
		     "{\"method\":\"" GATEWAY_INTERFACE
		     ".ListConnections\",\"parameters\":{\"closed\":1},\"more\":true}",
		     "org.varlink.service.InvalidParameter");
}

static void lists_a_hundred_thousand_connections(void **state)
{
	struct fixture *f = *state;
	bool truncated;

	f->connections = 100000;
	assert_int_equal(list(f, LIST_ALL, "connections", NULL, &truncated), 99999);
	assert_false(truncated);
}

static void says_when_there_are_more_connections(void **state)
{
	struct fixture *f = *state;
	bool truncated;

	f->connections = 2 * GATEWAY_CONNECTIONS_MAX;
	assert_int_equal(list(f, LIST_ALL, "connections", NULL, &truncated),
			 GATEWAY_CONNECTIONS_MAX);
	assert_true(truncated);
	/* nor does it look at the rest */
	assert_in_range(f->walked, GATEWAY_CONNECTIONS_MAX, GATEWAY_CONNECTIONS_MAX + 2);
}

static void expect_destination(size_t i, struct json_object *row)
{
	if (i == 1)
		assert_string_equal(json_object_to_json_string_ext(row, JSON_C_TO_STRING_PLAIN),
				    "{\"address\":\"198.51.100.2\",\"port\":443,\"records\":11,"
				    "\"shifted\":1,\"refused\":1}");
}

static void lists_destinations(void **state)
{
	struct fixture *f = *state;
	bool truncated;

	f->destinations = 200;
	assert_int_equal(list(f, CALL_MORE("ListDestinations"), "destinations", expect_destination,
			      &truncated),
			 200);
	assert_false(truncated);
}

static void limits_listings(void **state)
{
	struct fixture *f = *state;
	struct peer p[GATEWAY_LISTINGS_MAX];
	bool truncated;

	f->connections = 10000;
	for (int i = 0; i < GATEWAY_LISTINGS_MAX; i++) {
		peer_open(&p[i], f->event, f->place.path);
		peer_send(&p[i], LIST_ALL);
		peer_run_server(f->event);
	}
	expect_error(f, CALL_MORE("ListDestinations"), GATEWAY_INTERFACE ".Busy");
	/* one is read, one is given up: others may come */
	assert_int_equal(read_listing(&p[0], "connections", expect_connection, &truncated), 9999);
	peer_close(&p[1]);
	peer_run_server(f->event);
	assert_int_equal(list(f, LIST_ALL, "connections", NULL, &truncated), 9999);
	peer_close(&p[0]);
	for (int i = 2; i < GATEWAY_LISTINGS_MAX; i++)
		peer_close(&p[i]);
}

/* The definition */

static char *get_definition(struct fixture *f)
{
	struct json_object *o = ask(f,
				    "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
				    "\"parameters\":{\"interface\":\"" GATEWAY_INTERFACE "\"}}");
	char *copy = strdup(json_object_get_string(json_object_object_get(o, "description")));

	json_object_put(o);
	return copy;
}

static unsigned int occurrences(const char *text, const char *what)
{
	unsigned int n = 0;

	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void defines_all_counters(void **state)
{
	char *definition = get_definition(*state), field[64];

	/* of GetStatistics and of Monitor */
	for (size_t i = 0; i < ARRAY_SIZE(counter_names); i++) {
		snprintf(field, sizeof(field), "\n\t%s: int,\n", counter_names[i]);
		assert_int_equal(occurrences(definition, field), 2);
	}
	assert_int_equal(occurrences(definition, "\n\tconnections_shifted: int,\n"), 2);
	assert_int_equal(occurrences(definition, "\n\trecords: int\n)"), 2);
	free(definition);
}

static void comments_every_field(void **state)
{
	char *definition = get_definition(*state), *line, *rest = definition;
	bool commented = false;
	int fields = 0;

	while ((line = strsep(&rest, "\n"))) {
		bool is_comment = line[0] == '#' || strncmp(line, "\t#", 2) == 0;
		bool needs_one = line[0] == '\t' || isalpha((unsigned char)line[0]);

		if (needs_one && !is_comment && !commented)
			fail_msg("no comment before \"%s\"", line);
		assert_null(strstr(line, ": any"));
		fields += line[0] == '\t' && !is_comment;
		commented = is_comment;
	}
	assert_true(fields > 2 * COUNTER_COUNT);
	free(definition);
}

static void defines_what_it_has(void **state)
{
	static const char *const members[] = {
		"method GetStatus(",
		"method GetStatistics(",
		"method Monitor(",
		"method ListConnections(",
		"method ListDestinations(",
		"error Busy(",
		"method GetRules(",
		"method Reload(",
		"error ConfigurationInvalid(",
		"error Unavailable(",
		"type Link (",
		"type Connection (",
		"type Destination (",
		"type ConnectionState (",
	};
	char *definition = get_definition(*state);

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		assert_int_equal(occurrences(definition, members[i]), 1);
	assert_non_null(strstr(definition, "at most 131072 in all"));
	free(definition);
}

/* tsnatctl */

static char tsnatctl[4096];

/* The tests are in the folder "tests" of the build. */
static void find_tsnatctl(const char *test)
{
	const char *named = getenv("TSNATCTL"), *slash = strrchr(test, '/');

	if (named)
		snprintf(tsnatctl, sizeof(tsnatctl), "%s", named);
	else
		snprintf(tsnatctl, sizeof(tsnatctl), "%.*s/../tsnatctl",
			 slash ? (int)(slash - test) : 1, slash ? test : ".");
}

struct output {
	struct buffer text;
	int status;
};

static void read_output(struct fixture *f, int fd, struct output *ret)
{
	ssize_t n;

	do {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		peer_run_server(f->event);
		if (poll(&pfd, 1, 1) == 0) {
			n = 1;
			continue;
		}
		assert_int_equal(buffer_reserve(&ret->text, 65537, 256u << 20), 0);
		n = read(fd, ret->text.data + ret->text.end, 65536);
		assert_true(n >= 0);
		ret->text.end += (size_t)n;
	} while (n);
	assert_int_equal(buffer_reserve(&ret->text, 1, 256u << 20), 0);
	ret->text.data[ret->text.end] = '\0';
}

/*
 * Run tsnatctl with ARGS, split at spaces, while the server serves it; what it prints anywhere is
 * the output.
 */
static struct output run_tsnatctl(struct fixture *f, const char *args)
{
	char copy[200], *argv[16] = { copy }, *rest;
	struct output output = { 0 };
	int fds[2], argc = 1;
	pid_t pid;

	snprintf(copy, sizeof(copy), "tsnatctl %s", args);
	rest = copy;
	strsep(&rest, " ");
	while (rest && *rest)
		argv[argc++] = strsep(&rest, " ");
	argv[argc++] = (char *)"--socket";
	argv[argc] = f->place.path;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		execv(tsnatctl, argv);
		fprintf(stderr, "cannot run %s\n", tsnatctl);
		_exit(127);
	}
	assert_true(pid > 0);
	close(fds[1]);
	read_output(f, fds[0], &output);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &output.status, 0), pid);
	assert_true(WIFEXITED(output.status));
	output.status = WEXITSTATUS(output.status);
	return output;
}

static unsigned int lines(const struct output *o)
{
	unsigned int n = 0;

	for (size_t i = 0; i < o->text.end; i++)
		n += o->text.data[i] == '\n';
	return n;
}

static void expect_output(struct fixture *f, const char *args, int status, const char *text)
{
	struct output o = run_tsnatctl(f, args);

	assert_string_equal(o.text.data, text);
	assert_int_equal(o.status, status);
	free(o.text.data);
}

static void expect_in_output(struct fixture *f, const char *args, int status, const char *part)
{
	struct output o = run_tsnatctl(f, args);

	if (!strstr(o.text.data, part))
		fail_msg("no \"%s\" in \"%s\"", part, o.text.data);
	assert_int_equal(o.status, status);
	free(o.text.data);
}

static void ctl_prints_stats(void **state)
{
	struct output o = run_tsnatctl(*state, "stats");
	char *text = o.text.data, *line;
	size_t i = 0;

	assert_int_equal(o.status, 0);
	while ((line = strsep(&text, "\n")) && *line) {
		const char *name = i < COUNTER_COUNT ? counter_names[i]
						     : gauge_names[i - COUNTER_COUNT];

		assert_memory_equal(line, name, strlen(name));
		assert_int_equal(line[strlen(name)], ' ');
		assert_int_equal(strspn(line + strlen(name) + 1, "0123456789"),
				 strlen(line + strlen(name) + 1));
		i++;
	}
	assert_int_equal(i, COUNTER_COUNT + ARRAY_SIZE(gauge_names));
	free(o.text.data);
}

static void ctl_prints_stats_as_json(void **state)
{
	struct output o = run_tsnatctl(*state, "stats --json");
	struct json_object *json = json_tokener_parse(o.text.data);

	assert_int_equal(o.status, 0);
	expect_statistics(json);
	assert_int_equal(lines(&o), 1);
	json_object_put(json);
	free(o.text.data);
}

static void ctl_prints_status(void **state)
{
	struct fixture *f = *state;

	f->problem = "the rules\nare missing";
	expect_output(f, "status", 0,
		      "version 1.2.3\ndatapath bpf\ndecide queue\npolicy repair\nscope "
		      "destination\nrules NFQUEUE\n"
		      "mapping events\nrealtime yes\nuptime_ms 90061000\nhold_s 300\nrecords_limit "
		      "262144\n"
		      "link eth0 attached\nlink ppp0 not there\nlink we?rd? not attached\n"
		      "problem the rules?are missing\n");
	expect_in_output(f, "--json status", 0, "\"problems\":[\"the rules?are missing\"]}\n");
}

static void ctl_prints_connections(void **state)
{
	struct fixture *f = *state;

	expect_output(f, "connections", 0, "");
	expect_output(f, "connections --json", 0, "{\"connections\":[],\"truncated\":false}\n");
	f->connections = 4;
	expect_output(
		f, "connections", 0,
		"192.0.2.1:1024 198.51.100.1:443 - 0 - syn-sent 0\n"
		"[2001:db8::1]:1025 [2001:db8:ffff::2]:443 [fd00::3]:5555 1 1001 answered 1\n"
		"192.0.2.1:1026 198.51.100.1:443 10.0.0.1:40000 4294967280 1002 established 2\n"
		"192.0.2.1:1027 198.51.100.1:443 - 3 1003 closing 3\n");
}

static void ctl_prints_a_hundred_thousand_connections(void **state)
{
	struct fixture *f = *state;
	struct json_object *json;
	struct output o;

	f->connections = 100000;
	o = run_tsnatctl(f, "connections");
	assert_int_equal(o.status, 0);
	assert_int_equal(lines(&o), 99997);
	free(o.text.data);
	o = run_tsnatctl(f, "connections --all");
	assert_int_equal(o.status, 0);
	assert_int_equal(lines(&o), 99999);
	free(o.text.data);
	o = run_tsnatctl(f, "connections --all --json");
	assert_int_equal(o.status, 0);
	json = json_tokener_parse(o.text.data);
	assert_int_equal(json_object_array_length(json_object_object_get(json, "connections")),
			 99999);
	json_object_put(json);
	free(o.text.data);
}

static void ctl_says_when_there_are_more(void **state)
{
	struct fixture *f = *state;

	f->connections = 2 * GATEWAY_CONNECTIONS_MAX;
	expect_in_output(f, "connections", 0,
			 "tsnatctl: there are more connections than can be listed\n");
}

static void ctl_prints_destinations(void **state)
{
	struct fixture *f = *state;

	f->destinations = 3;
	expect_output(
		f, "destinations", 0,
		"198.51.100.3:443 12 2 1\n198.51.100.2:443 11 1 1\n198.51.100.1:443 10 0 1\n");
	expect_in_output(f, "destinations --json", 0,
			 "{\"destinations\":[{\"address\":\"198.51.100.1\",");
}

static void ctl_prints_metrics(void **state)
{
	struct output o = run_tsnatctl(*state, "metrics");
	const char *text = o.text.data;

	assert_int_equal(o.status, 0);
	assert_non_null(strstr(text,
			       "# TYPE tsnatd_syn_seen counter\n"
			       "# HELP tsnatd_syn_seen outbound SYNs of translated connections\n"
			       "tsnatd_syn_seen_total 1000\n"));
	assert_non_null(strstr(text, "# TYPE tsnatd_connections_shifted gauge\n"));
	assert_non_null(strstr(text, "\ntsnatd_connections_shifted 30\n"));
	assert_non_null(strstr(text, "# UNIT tsnatd_uptime_seconds seconds\n"));
	assert_non_null(strstr(text, "\ntsnatd_uptime_seconds 90061.000\n"));
	assert_non_null(strstr(text, "\ntsnatd_build_info{version=\"1.2.3\",datapath=\"bpf\","));
	assert_non_null(strstr(text, "\ntsnatd_link_attached{link=\"ppp0\"} 0\n"));
	assert_int_equal(occurrences(text, "_total "), COUNTER_COUNT);
	assert_int_equal(occurrences(text, "# TYPE "), occurrences(text, "# HELP "));
	assert_string_equal(text + strlen(text) - 6, "# EOF\n");
	free(o.text.data);
}

static void ctl_prints_rules(void **state)
{
	struct fixture *f = *state;

	expect_output(f, "rules", 0, "table ip tsnatd {\n\tset \"we?rd\"\n}\n");
	expect_output(f, "rules --json", 0,
		      "{\"nft\":\"table ip tsnatd {\\n\\tset \\\"we?rd\\\"\\n}\\n\"}\n");
}

static void ctl_reloads(void **state)
{
	struct fixture *f = *state;

	expect_output(f, "reload", 0, "");
	expect_output(f, "reload --json", 0, "{\"needs_restart\":[]}\n");
	f->needs_restart = "records";
	expect_output(f, "reload", 0, "tsnatctl: records changes with a restart only\n");
	f->bad_line = "x.conf:1: hold: no";
	expect_output(f, "reload", 2,
		      "tsnatctl: x.conf:1: hold: no\ntsnatctl: the second one\n"
		      "tsnatctl: the configuration is not valid; the old one stays\n");
	expect_in_output(f, "reload --json", 2,
			 "{\"problems\":[\"x.conf:1: hold: no\",\"the second one\"]}\n");
	f->bad_line = NULL;
	f->error = -EIO;
	expect_output(f, "reload", 1,
		      "tsnatctl: tsnatd answered " GATEWAY_INTERFACE
		      ".Unavailable: Input/output error\n");
}

static void ctl_checks_files(void **state)
{
	struct fixture *f = *state;
	char path[sizeof(f->place.dir) + 8], args[200], expected[500];
	FILE *file;

	snprintf(path, sizeof(path), "%s/conf", f->place.dir);
	snprintf(args, sizeof(args), "check %s", path);
	snprintf(expected, sizeof(expected), "tsnatctl: %s: No such file or directory\n", path);
	expect_output(f, args, 2, expected);

	file = fopen(path, "w");
	assert_non_null(file);
	fputs("hold = 1;\n", file);
	fflush(file);
	expect_output(f, args, 0, "");
	fputs("hold_ = 1;\npolicy = \"x\";\n", file);
	fclose(file);
	snprintf(expected, sizeof(expected),
		 "tsnatctl: %s:2: hold_: there is no such option\n"
		 "tsnatctl: %s:3: policy: must be one of: repair unify\n",
		 path, path);
	expect_output(f, args, 2, expected);
	snprintf(args, sizeof(args), "check --json %s", path);
	snprintf(expected, sizeof(expected),
		 "{\"file\":\"%s\",\"problems\":[\"%s:2: hold_: there is no such option\","
		 "\"%s:3: policy: must be one of: repair unify\"]}\n",
		 path, path, path);
	expect_output(f, args, 2, expected);
	unlink(path);
}

static void ctl_says_what_went_wrong(void **state)
{
	struct fixture *f = *state;
	struct output o;
	char expected[200];

	f->error = -EIO;
	expect_output(f, "stats", 1,
		      "tsnatctl: tsnatd answered " GATEWAY_INTERFACE
		      ".Unavailable: Input/output error\n");
	expect_output(f, "connections", 1,
		      "tsnatctl: tsnatd answered " GATEWAY_INTERFACE
		      ".Unavailable: Input/output error\n");
	gateway_free(f->gateway);
	f->gateway = NULL;
	snprintf(expected, sizeof(expected),
		 "tsnatctl: is tsnatd running? tried %s: No such file or directory\n",
		 f->place.path);
	expect_output(f, "status", 1, expected);
	expect_output(f, "top", 1, expected);
	o = run_tsnatctl(f, "metrics");
	assert_string_equal(o.text.data, expected);
	assert_int_equal(o.status, 1);
	free(o.text.data);
}

static void ctl_knows_its_usage(void **state)
{
	static const char *const wrong[] = {
		"",
		"nonsense",
		"stats stats",
		"reload x",
		"check x y",
		"check --interval 1",
		"stats --nonsense",
		"metrics --json",
		"metrics --all",
		"stats --interval 1",
		"top --interval 0",
		"top --interval 3601",
		"top --interval x",
		"top --interval",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		expect_in_output(*state, wrong[i], 2, "tsnatctl: ");
	expect_in_output(*state, "--help", 0, "  connections   open connections\n");
	expect_in_output(*state, "stats --version", 0, "tsnatctl ");
}

/* top does not end by itself when its output is no terminal: one block of lines after the other. */
static void ctl_prints_top(void **state)
{
	struct fixture *f = *state;
	struct peer reader = { .event = f->event };
	char text[65536] = "";
	size_t length = 0;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl(tsnatctl, tsnatctl, "top", "--interval", "1", "--socket", f->place.path,
		      NULL);
		_exit(127);
	}
	close(fds[1]);
	while (occurrences(text, "\n\n") < 2 && length < sizeof(text) - 1) {
		ssize_t n = read(fds[0], text + length, sizeof(text) - 1 - length);

		assert_true(n > 0 || (n < 0 && errno == EAGAIN));
		if (n > 0)
			text[length += (size_t)n] = '\0';
		else
			peer_run_server_ms(reader.event, 10);
		f->counters[COUNTER_SYN_SEEN] = occurrences(text, "\n\n") ? 3000 : 1000;
	}
	assert_memory_equal(text, "syn_seen 1000 -\n", 16);
	assert_non_null(strstr(text, "\n\nsyn_seen 3000 "));
	assert_non_null(strstr(text, "\nrecords 60 -\n\n"));
	kill(pid, SIGINT);
	waitpid(pid, NULL, 0);
	close(fds[0]);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(tells_all_counters),
		TEST(gauges_are_never_negative),
		TEST(monitors),
		TEST(monitor_ends_with_its_reader),
		TEST(refuses_bad_intervals),
		TEST(tells_its_status),
		TEST(tells_what_is_unavailable),
		TEST(long_answers_need_more),
		TEST(tells_its_rules),
		TEST(reloads),
		TEST(tells_all_that_is_wrong_with_a_configuration),
		TEST(only_root_and_the_own_user_may_reload),
		TEST(lists_no_connections),
		TEST(lists_connections),
		TEST(lists_open_connections_unless_asked_for_all),
		TEST(lists_a_hundred_thousand_connections),
		TEST(says_when_there_are_more_connections),
		TEST(lists_destinations),
		TEST(limits_listings),
		TEST(defines_all_counters),
		TEST(comments_every_field),
		TEST(defines_what_it_has),
		TEST(ctl_prints_stats),
		TEST(ctl_prints_stats_as_json),
		TEST(ctl_prints_status),
		TEST(ctl_prints_connections),
		TEST(ctl_prints_a_hundred_thousand_connections),
		TEST(ctl_says_when_there_are_more),
		TEST(ctl_prints_destinations),
		TEST(ctl_prints_metrics),
		TEST(ctl_prints_rules),
		TEST(ctl_reloads),
		TEST(ctl_checks_files),
		TEST(ctl_says_what_went_wrong),
		TEST(ctl_knows_its_usage),
		TEST(ctl_prints_top),
	};

	(void)argc;
	find_tsnatctl(argv[0]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
