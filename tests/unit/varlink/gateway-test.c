// SPDX-License-Identifier: GPL-2.0-or-later
/* gateway-test.c - gateway.c, by calls over its socket. */
#include <ctype.h>
#include <json-c/json.h>

#include "gateway-source.h"
#include "varlink/gateway_listing.h"

#define CALL(method) "{\"method\":\"" GATEWAY_INTERFACE "." method "\"}"
#define CALL_MORE(method) "{\"method\":\"" GATEWAY_INTERFACE "." method "\",\"more\":true}"
#define LIST_ALL                           \
	"{\"method\":\"" GATEWAY_INTERFACE \
	".ListConnections\",\"parameters\":{\"closed\":true},\"more\":true}"

/* Returns the parameters of an answer that must be no error, and whether more answers follow. */
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
	/* An error of the source ends the call. */
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

/* The peer is the user that connected, even when the process changes its user later. */
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

/* Read a listing to its end. FN (or NULL) is called for each row. Returns their number. */
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
	else /* row 6 is being removed, so it is not listed */
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
	/* It does not walk over the rest. */
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
	/* One listing is read to its end and one is closed: two more are allowed. */
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

static void defines_all_counters(void **state)
{
	char *definition = get_definition(*state), field[64];

	/* Twice: GetStatistics and Monitor. */
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, gateway_setup, gateway_teardown)
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
