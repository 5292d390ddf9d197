// SPDX-License-Identifier: GPL-2.0-or-later
/* varlink-test.c - varlink.c, by raw bytes over its socket. */
#include "varlink/varlink.h"
#include "varlink-peer.h"

#define CALL(method) "{\"method\":\"org.example.test." method "\"}"
#define ERROR(name, parameters) \
	"{\"error\":\"org.varlink.service." name "\",\"parameters\":" parameters "}"
#define EMPTY_ANSWER "{\"parameters\":{}}"
#define PING CALL("Ping")

struct fixture {
	struct peer_place place;
	sd_event *event;
	struct varlink_server *server;
	struct varlink_call *held;
	unsigned int pings, rows_made, streams_released, holds_released;
};

/* The interface under test */

static void ping(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct fixture *f = user;

	(void)parameters;
	f->pings++;
	varlink_reply(call, NULL);
}

static void echo(struct varlink_call *call, struct json_object *parameters, void *user)
{
	(void)user;
	varlink_reply(call, json_object_get(parameters));
}

struct stream {
	struct fixture *fixture;
	int64_t row, rows;
	const char *padding; /* or NULL */
};

static const char *padding(size_t length)
{
	static char text[50000];

	memset(text, 'x', sizeof(text));
	assert_true(length < sizeof(text));
	text[length] = '\0';
	return text;
}

static void stream_resume(struct varlink_call *call, void *state)
{
	struct stream *s = state;
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "row", json_object_new_int64(s->row++));
	if (s->padding)
		json_object_object_add(o, "padding", json_object_new_string(s->padding));
	s->fixture->rows_made++;
	if (s->row < s->rows)
		varlink_notify(call, o);
	else
		varlink_reply(call, o);
}

static void stream_release(void *state)
{
	struct stream *s = state;

	s->fixture->streams_released++;
	free(s);
}

static void stream(struct varlink_call *call, struct json_object *parameters, void *user)
{
	int64_t width = json_object_get_int64(json_object_object_get(parameters, "width"));
	struct stream *s = calloc(1, sizeof(*s));

	*s = (struct stream){
		.fixture = user,
		.rows = json_object_get_int64(json_object_object_get(parameters, "rows")),
		.padding = width ? padding((size_t)width) : NULL,
	};
	varlink_keep(call, s, stream_resume, stream_release);
}

static void hold_release(void *state)
{
	struct fixture *f = state;

	f->holds_released++;
	f->held = NULL;
}

static void hold(struct varlink_call *call, struct json_object *parameters, void *user)
{
	struct fixture *f = user;

	(void)parameters;
	f->held = call;
	varlink_keep(call, f, NULL, hold_release);
}

/* Answers without asking varlink_has_room(). */
static void flood(struct varlink_call *call, struct json_object *parameters, void *user)
{
	int64_t rows = json_object_get_int64(json_object_object_get(parameters, "rows"));

	(void)user;
	for (int64_t i = 0; i < rows; i++) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "padding", json_object_new_string(padding(1000)));
		varlink_notify(call, o);
	}
	varlink_reply(call, NULL);
}

static const struct varlink_parameter echo_parameters[] = {
	{ "text", json_type_string, false },
	{ "count", json_type_int, true },
	{ 0 },
};
static const struct varlink_parameter stream_parameters[] = {
	{ "rows", json_type_int, false },
	{ "width", json_type_int, true },
	{ 0 },
};
static const struct varlink_parameter flood_parameters[] = { { "rows", json_type_int, false },
							     { 0 } };

static const struct varlink_method methods[] = {
	{ .name = "Ping", .run = ping },
	{ .name = "Echo", .run = echo, .parameters = echo_parameters },
	{ .name = "Stream", .run = stream, .parameters = stream_parameters, .needs_more = true },
	{ .name = "Hold", .run = hold },
	{ .name = "Flood", .run = flood, .parameters = flood_parameters, .needs_more = true },
	{ 0 },
};
static const struct varlink_interface interface = { "org.example.test",
						    "interface org.example.test\n", methods };
static const struct varlink_interface *const interfaces[] = { &interface, NULL };

static struct varlink_config test_config(struct fixture *f)
{
	return (struct varlink_config){ .vendor = "a",
					.product = "b",
					.version = "c",
					.url = "d",
					.interfaces = interfaces,
					.user = f };
}

static void start_server(struct fixture *f, const struct varlink_config *config)
{
	assert_int_equal(varlink_server_new(&f->server, f->event, config), 0);
	assert_int_equal(varlink_server_listen(f->server, f->place.path, 0666), 0);
}

static int setup_idle(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	peer_place_make(&f->place);
	assert_true(sd_event_new(&f->event) >= 0);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	struct varlink_config config;

	setup_idle(state);
	config = test_config(*state);
	start_server(*state, &config);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	varlink_server_free(f->server);
	sd_event_unref(f->event);
	peer_place_remove(&f->place);
	free(f);
	return 0;
}

static void open_peer(struct fixture *f, struct peer *p)
{
	peer_open(p, f->event, f->place.path);
}

/* The server answers other connections. */
static void expect_alive(struct fixture *f)
{
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, PING);
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
}

/* Framing */

static void answers_one_call(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"a/"
		      "b\",\"count\":3}}");
	peer_expect(&p, "{\"parameters\":{\"text\":\"a/b\",\"count\":3}}");
	peer_expect_silence(&p);
	peer_close(&p);
}

static void space_around_a_call_means_nothing(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, " \t\r\n{ \"method\" : \"org.example.test.Ping\" } \t\r\n");
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
}

static void answers_pipelined_calls_in_order(void **state)
{
	static const char calls[] =
		"{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"1\"}}\0"
		"{\"method\":\"org.example.test.Stream\",\"parameters\":{\"rows\":2},\"more\":true}"
		"\0"
		"{\"method\":\"org.example.test.Missing\"}\0"
		"{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"2\"}}";
	struct peer p;

	open_peer(*state, &p);
	peer_send_bytes(&p, calls, sizeof(calls));
	peer_expect(&p, "{\"parameters\":{\"text\":\"1\"}}");
	peer_expect(&p, "{\"parameters\":{\"row\":0},\"continues\":true}");
	peer_expect(&p, "{\"parameters\":{\"row\":1}}");
	peer_expect(&p, ERROR("MethodNotFound", "{\"method\":\"org.example.test.Missing\"}"));
	peer_expect(&p, "{\"parameters\":{\"text\":\"2\"}}");
	peer_close(&p);
}

static void takes_a_call_byte_by_byte(void **state)
{
	static const char call[] =
		"{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"slow\"}}";
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	for (size_t i = 0; i < sizeof(call); i++) {
		peer_expect_silence(&p);
		peer_send_bytes(&p, call + i, 1);
	}
	peer_expect(&p, "{\"parameters\":{\"text\":\"slow\"}}");
	peer_close(&p);
}

static void answers_after_half_close(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, PING);
	peer_send(&p, PING);
	shutdown(p.fd, SHUT_WR);
	peer_expect(&p, EMPTY_ANSWER);
	peer_expect(&p, EMPTY_ANSWER);
	peer_expect_closed(&p);
	peer_close(&p);
}

static void closes_on_half_a_call(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send_bytes(&p, PING, strlen(PING));
	shutdown(p.fd, SHUT_WR);
	peer_expect_closed(&p);
	peer_close(&p);
}

/* Bytes that close the connection */

static void expect_call_closes(struct fixture *f, const char *call)
{
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, call);
	/* A later call is not answered. */
	peer_send(&p, PING);
	peer_expect_closed(&p);
	peer_close(&p);
	assert_int_equal(f->pings, 0);
}

static void closes_on_what_is_no_call(void **state)
{
	static const char *const calls[] = {
		"",
		" ",
		"nonsense",
		"{",
		"{}",
		"[]",
		"null",
		"1",
		"\"text\"",
		"{\"method\":\"org.example.test.Ping\"",
		"{\"method\":\"org.example.test.Ping\"}}",
		"{\"method\":\"org.example.test.Ping\"} {}",
		"{\"method\":\"org.example.test.Ping\",}",
		"{'method':'org.example.test.Ping'}",
		"{\"method\":\"org.example.test.Ping\"/* really */}",
		"{\"method\":\"org.example.test.\xff\"}",
		"{\"method\":1}",
		"{\"method\":null}",
		"{\"parameters\":{}}",
		"{\"method\":\"org.example.test.Ping\",\"parameters\":[]}",
		"{\"method\":\"org.example.test.Ping\",\"parameters\":\"\"}",
		"{\"method\":\"org.example.test.Ping\",\"parameters\":1}",
		"{\"method\":\"org.example.test.Ping\",\"unknown\":true}",
		"{\"method\":\"org.example.test.Ping\",\"error\":\"a.b\"}",
		"{\"method\":\"org.example.test.Ping\",\"more\":1}",
		"{\"method\":\"org.example.test.Ping\",\"more\":null}",
		"{\"method\":\"org.example.test.Ping\",\"oneway\":\"yes\"}",
		"{\"method\":\"org.example.test.Ping\",\"upgrade\":true}",
		"{\"method\":\"org.example.test.Ping\",\"oneway\":true,\"more\":true}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		expect_call_closes(*state, calls[i]);
	expect_alive(*state);
}

static void closes_on_deep_nesting(void **state)
{
	char call[4096] = "{\"method\":\"org.example.test.Ping\",\"parameters\":{\"a\":";

	for (int i = 0; i < 1000; i++)
		strcat(call, "[");
	expect_call_closes(*state, call);
}

/* An Echo call of LENGTH bytes with its NUL. */
static char *long_call(size_t length)
{
	static const char head[] =
		"{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"",
			  tail[] = "\"}}";
	char *call = malloc(length);
	size_t head_length = strlen(head);

	memset(call, 'x', length);
	memcpy(call, head, head_length);
	memcpy(call + length - sizeof(tail), tail, sizeof(tail));
	return call;
}

static void takes_the_longest_call(void **state)
{
	char *call = long_call(VARLINK_CALL_MAX);
	struct peer p;

	open_peer(*state, &p);
	peer_send_bytes(&p, call, VARLINK_CALL_MAX);
	peer_send(&p, PING);
	assert_true(strlen(peer_next(&p)) > VARLINK_CALL_MAX - 100);
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
	free(call);
}

static void closes_on_too_long_a_call(void **state)
{
	char *call = long_call(VARLINK_CALL_MAX + 1);
	struct peer p;

	open_peer(*state, &p);
	peer_send_bytes(&p, call, VARLINK_CALL_MAX + 1);
	peer_expect_closed(&p);
	peer_close(&p);
	free(call);
	expect_alive(*state);
}

/* Calls that are answered with an error */

static void answers_errors(void **state)
{
	static const struct {
		const char *call, *answer;
	} cases[] = {
		{ "{\"method\":\"Ping\"}", ERROR("MethodNotFound", "{\"method\":\"Ping\"}") },
		{ "{\"method\":\"\"}", ERROR("MethodNotFound", "{\"method\":\"\"}") },
		{ "{\"method\":\"org.example.Ping\"}",
		  ERROR("MethodNotFound", "{\"method\":\"org.example.Ping\"}") },
		{ CALL(""), ERROR("MethodNotFound", "{\"method\":\"org.example.test.\"}") },
		{ CALL("Pin"), ERROR("MethodNotFound", "{\"method\":\"org.example.test.Pin\"}") },
		{ CALL("Echo"), ERROR("InvalidParameter", "{\"parameter\":\"text\"}") },
		{ CALL("Stream"), ERROR("ExpectedMore", "{}") },
		{ "{\"method\":\"org.example.test.Echo\",\"parameters\":null}",
		  ERROR("InvalidParameter", "{\"parameter\":\"text\"}") },
		{ "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":null}}",
		  ERROR("InvalidParameter", "{\"parameter\":\"text\"}") },
		{ "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":1}}",
		  ERROR("InvalidParameter", "{\"parameter\":\"text\"}") },
		{ "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"\",\"count\":1."
		  "5}}",
		  ERROR("InvalidParameter", "{\"parameter\":\"count\"}") },
		{ "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"\",\"tex\":1}}",
		  ERROR("InvalidParameter", "{\"parameter\":\"tex\"}") },
		{ "{\"method\":\"org.example.test.Ping\",\"parameters\":{\"a\":1}}",
		  ERROR("InvalidParameter", "{\"parameter\":\"a\"}") },
		{ "{\"method\":\"org.varlink.service.GetInterfaceDescription\"}",
		  ERROR("InvalidParameter", "{\"parameter\":\"interface\"}") },
		{ "{\"method\":\"org.varlink.service.GetInterfaceDescription\",\"parameters\":{"
		  "\"interface\":\"org.no\"}}",
		  ERROR("InterfaceNotFound", "{\"interface\":\"org.no\"}") },
	};
	struct peer p;

	open_peer(*state, &p);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		peer_send(&p, cases[i].call);
		peer_expect(&p, cases[i].answer);
	}
	peer_close(&p);
}

static void optional_parameters_may_be_null(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"a\","
		      "\"count\":null}}");
	peer_expect(&p, "{\"parameters\":{\"text\":\"a\",\"count\":null}}");
	peer_close(&p);
}

/* Flags */

static void oneway_has_no_answer(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, "{\"method\":\"org.example.test.Ping\",\"oneway\":true}");
	peer_send(&p, "{\"method\":\"org.example.test.Missing\",\"oneway\":true}");
	peer_send(&p, "{\"method\":\"org.example.test.Stream\",\"oneway\":true,\"parameters\":{"
		      "\"rows\":5}}");
	peer_send(&p, "{\"method\":\"org.example.test.Hold\",\"oneway\":true}");
	peer_expect_silence(&p);
	assert_int_equal(f->pings, 1);
	assert_int_equal(f->holds_released, 1);
	peer_send(&p, PING);
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
}

static void more_on_a_plain_method_is_no_error(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, "{\"method\":\"org.example.test.Ping\",\"more\":true,\"oneway\":false,"
		      "\"upgrade\":false}");
	peer_expect(&p, EMPTY_ANSWER);
	peer_expect_silence(&p);
	peer_close(&p);
}

/* The service */

static void tells_about_itself(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, "{\"method\":\"org.varlink.service.GetInfo\"}");
	peer_expect(&p, "{\"parameters\":{\"vendor\":\"a\",\"product\":\"b\",\"version\":\"c\","
			"\"url\":\"d\","
			"\"interfaces\":[\"org.varlink.service\",\"org.example.test\"]}}");
	peer_close(&p);
}

static void describes_interfaces(void **state)
{
	struct peer p;

	open_peer(*state, &p);
	peer_send(&p, "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
		      "\"parameters\":{\"interface\":\"org.example.test\"}}");
	peer_expect(&p, "{\"parameters\":{\"description\":\"interface org.example.test\\n\"}}");
	peer_send(&p, "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
		      "\"parameters\":{\"interface\":\"org.varlink.service\"}}");
	assert_non_null(strstr(peer_next(&p), "method GetInfo()"));
	peer_close(&p);
}

/* Calls that are answered later */

static void later_calls_wait_for_the_answer(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, CALL("Hold"));
	peer_send(&p, PING);
	peer_expect_silence(&p);
	assert_non_null(f->held);
	varlink_reply(f->held, NULL);
	/* Not before varlink_reply() returned. */
	assert_int_equal(f->holds_released, 0);
	peer_expect(&p, EMPTY_ANSWER);
	peer_expect(&p, EMPTY_ANSWER);
	assert_int_equal(f->holds_released, 1);
	peer_close(&p);
}

static void a_kept_call_ends_with_its_connection(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, CALL("Hold"));
	peer_expect_silence(&p);
	assert_int_equal(f->holds_released, 0);
	peer_close(&p);
	peer_run_server(f->event);
	assert_int_equal(f->holds_released, 1);
}

static void a_kept_call_ends_with_the_server(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, CALL("Hold"));
	peer_expect_silence(&p);
	varlink_server_free(f->server);
	f->server = NULL;
	assert_int_equal(f->holds_released, 1);
	peer_expect_closed(&p);
	peer_close(&p);
}

/* Streams */

#define STREAM(rows)                                                                           \
	"{\"method\":\"org.example.test.Stream\",\"parameters\":{\"rows\":" rows "},\"more\":" \
	"true}"

static void streams_at_the_readers_pace(void **state)
{
	struct fixture *f = *state;
	unsigned int rows = 0;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, STREAM("100000"));
	while (rows < 100000) {
		char expected[96];
		ssize_t length;

		peer_run_server(f->event);
		/* Unread rows are only as many as the buffers of socket and server hold. */
		assert_true((f->rows_made - rows) * 40 < VARLINK_OUTPUT_ROOM + 500000);
		peer_read(&p, 5000);
		assert_false(p.closed);
		while ((length = buffer_message_length(&p.in)) >= 0) {
			snprintf(expected, sizeof(expected), "{\"parameters\":{\"row\":%u}%s}",
				 rows, rows < 99999 ? ",\"continues\":true" : "");
			assert_string_equal(p.in.data + p.in.start, expected);
			buffer_consume(&p.in, (size_t)length + 1);
			rows++;
		}
	}
	peer_run_server(f->event);
	assert_int_equal(f->streams_released, 1);
	peer_send(&p, PING);
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
}

/* Few such rows fit between VARLINK_OUTPUT_ROOM and VARLINK_OUTPUT_MAX. */
static void streams_wide_rows(void **state)
{
	struct fixture *f = *state;
	unsigned int rows = 0;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, "{\"method\":\"org.example.test.Stream\",\"parameters\":{\"rows\":200,"
		      "\"width\":49000},\"more\":true}");
	while (rows < 200) {
		ssize_t length;

		peer_run_server(f->event);
		peer_read(&p, 60000);
		assert_false(p.closed);
		while ((length = buffer_message_length(&p.in)) >= 0) {
			assert_true(length > 49000);
			buffer_consume(&p.in, (size_t)length + 1);
			rows++;
		}
	}
	peer_close(&p);
}

static void a_reader_may_go_in_the_middle_of_a_stream(void **state)
{
	struct fixture *f = *state;

	for (size_t taken = 0; taken < 300000; taken = 3 * taken + 1) {
		struct peer p;
		unsigned int released = f->streams_released;

		open_peer(f, &p);
		peer_send(&p, STREAM("100000"));
		for (size_t n = 0; n < taken;) {
			sd_event_run(f->event, 0);
			n += peer_read(&p, 5000);
		}
		peer_close(&p);
		peer_run_server(f->event);
		assert_int_equal(f->streams_released, released + 1);
	}
	expect_alive(f);
}

static void the_server_may_go_in_the_middle_of_a_stream(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, STREAM("100000"));
	sd_event_run(f->event, 0);
	sd_event_run(f->event, 0);
	varlink_server_free(f->server);
	f->server = NULL;
	assert_int_equal(f->streams_released, 1);
	peer_close(&p);
}

/* Limits */

/* Long enough for a busy machine. */
#define STALL_MS 1000

static void wait_until_released(struct fixture *f)
{
	uint64_t end = boot_ms() + PEER_PATIENCE_MS;

	while (!f->streams_released && boot_ms() < end)
		peer_run_server_ms(f->event, 10);
	assert_int_equal(f->streams_released, 1);
}

static void cuts_a_reader_that_stalls(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct peer p;

	config.stall_ms = STALL_MS;
	start_server(f, &config);
	open_peer(f, &p);
	peer_send(&p, STREAM("100000"));
	peer_run_server_ms(f->event, STALL_MS / 10);
	assert_int_equal(f->streams_released, 0);
	expect_alive(f);
	wait_until_released(f);
	expect_alive(f);
	peer_close(&p);
}

static void a_slow_reader_does_not_stall(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct peer p;

	config.stall_ms = STALL_MS;
	start_server(f, &config);
	open_peer(f, &p);
	peer_send(&p, STREAM("100000"));
	for (int i = 0; i < 15; i++) {
		peer_run_server_ms(f->event, STALL_MS / 10);
		/* Enough bytes for the kernel to let the server write again. */
		peer_read(&p, 200000);
	}
	assert_int_equal(f->streams_released, 0);
	assert_false(p.closed);
	peer_close(&p);
}

static void an_idle_connection_does_not_stall(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct peer p;

	config.stall_ms = 50;
	start_server(f, &config);
	open_peer(f, &p);
	peer_send(&p, PING);
	peer_expect(&p, EMPTY_ANSWER);
	peer_run_server_ms(f->event, 200);
	peer_send(&p, PING);
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
}

static void cuts_a_reader_that_never_reads_its_answers(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	char *call = long_call(VARLINK_CALL_MAX / 2);
	uint64_t end = boot_ms() + PEER_PATIENCE_MS;
	struct peer p;

	config.stall_ms = 200;
	start_server(f, &config);
	open_peer(f, &p);
	/* The server stops reading calls when there is no room for answers. */
	for (int i = 0; i < 30; i++)
		if (send(p.fd, call, VARLINK_CALL_MAX / 2, MSG_NOSIGNAL) < 0)
			peer_run_server(f->event);
	peer_run_server(f->event);
	expect_alive(f);
	while (send(p.fd, call, 1, MSG_NOSIGNAL) == 1 || errno == EAGAIN) {
		assert_true(boot_ms() < end);
		peer_run_server_ms(f->event, 10);
	}
	assert_int_equal(errno, EPIPE);
	peer_close(&p);
	free(call);
}

#define FLOOD(kilobytes)                                                             \
	"{\"method\":\"org.example.test.Flood\",\"parameters\":{\"rows\":" kilobytes \
	"},\"more\":true}"

static void cuts_a_reader_whose_answers_pile_up(void **state)
{
	struct fixture *f = *state;
	struct peer p;

	open_peer(f, &p);
	peer_send(&p, FLOOD("2000"));
	peer_run_server(f->event);
	while (!p.closed)
		peer_read(&p, 1 << 20);
	assert_true(buffer_length(&p.in) < 2 * VARLINK_OUTPUT_MAX);
	peer_close(&p);
	expect_alive(f);
}

static void limits_connections(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct peer p[4];

	config.connections = 3;
	start_server(f, &config);
	for (int i = 0; i < 4; i++) {
		open_peer(f, &p[i]);
		peer_run_server(f->event);
	}
	peer_expect_closed(&p[3]);
	peer_send(&p[2], PING);
	peer_expect(&p[2], EMPTY_ANSWER);
	/* After one connection is closed another one is allowed. */
	peer_close(&p[0]);
	peer_run_server(f->event);
	expect_alive(f);
	for (int i = 1; i < 4; i++)
		peer_close(&p[i]);
}

static void limits_connections_of_a_user(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct peer p[2];

	config.connections_per_uid = 1;
	start_server(f, &config);
	open_peer(f, &p[0]);
	open_peer(f, &p[1]);
	peer_expect_closed(&p[1]);
	peer_expect_silence(&p[0]);
	peer_close(&p[0]);
	peer_close(&p[1]);
}

/* Fairness */

static void lets_other_callers_have_their_turn(void **state)
{
	static char calls[1000 * sizeof(PING)];
	struct fixture *f = *state;
	struct peer many, one;

	for (size_t at = 0; at < sizeof(calls); at += sizeof(PING))
		memcpy(calls + at, PING, sizeof(PING));
	open_peer(f, &many);
	open_peer(f, &one);
	peer_expect_silence(&one);
	peer_send_bytes(&many, calls, sizeof(calls));
	assert_int_equal(f->pings, 0);
	peer_send(&one, "{\"method\":\"org.example.test.Echo\",\"parameters\":{\"text\":\"\"}}");
	peer_expect(&one, "{\"parameters\":{\"text\":\"\"}}");
	assert_true(f->pings <= 2 * VARLINK_STEPS_PER_DISPATCH);
	for (int i = 0; i < 1000; i++)
		peer_expect(&many, EMPTY_ANSWER);
	peer_close(&many);
	peer_close(&one);
}

static void a_stream_lets_other_callers_have_their_turn(void **state)
{
	struct fixture *f = *state;
	struct peer reader, one;

	open_peer(f, &reader);
	open_peer(f, &one);
	peer_send(&reader, STREAM("1000000"));
	for (int i = 0; i < 100; i++) {
		peer_read(&reader, PEER_READ_SIZE);
		sd_event_run(f->event, 0);
	}
	peer_send(&one, PING);
	for (int i = 0; i < 3; i++) {
		peer_read(&reader, PEER_READ_SIZE);
		sd_event_run(f->event, 0);
	}
	assert_int_equal(f->pings, 1);
	peer_close(&reader);
	peer_close(&one);
}

static int on_urgent(sd_event_source *source, void *user)
{
	unsigned int *turns = user;

	++*turns;
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void waits_for_what_is_urgent(void **state)
{
	struct fixture *f = *state;
	unsigned int turns = 0;
	sd_event_source *urgent;
	struct peer p;

	open_peer(f, &p);
	peer_expect_silence(&p);
	assert_true(sd_event_add_defer(f->event, &urgent, on_urgent, &turns) >= 0);
	peer_send(&p, PING);
	for (int i = 0; i < 100; i++)
		sd_event_run(f->event, 0);
	assert_int_equal(turns, 100);
	assert_int_equal(f->pings, 0);
	sd_event_source_disable_unref(urgent);
	peer_expect(&p, EMPTY_ANSWER);
	peer_close(&p);
}

static void does_nothing_when_there_is_nothing_to_do(void **state)
{
	struct fixture *f = *state;
	struct peer p[4];

	for (int i = 0; i < 4; i++)
		open_peer(f, &p[i]);
	/* A call that is not answered yet. */
	peer_send(&p[0], CALL("Hold"));
	/* A stream whose reader does not read. */
	peer_send(&p[1], STREAM("100000"));
	/* A call that is not answered yet, by a peer that sends nothing more. */
	peer_send(&p[2], CALL("Hold"));
	shutdown(p[2].fd, SHUT_WR);
	/* Answers that are not read, by a peer that sends nothing more. */
	peer_send(&p[3], FLOOD("600"));
	shutdown(p[3].fd, SHUT_WR);
	peer_run_server(f->event);
	assert_int_equal(sd_event_run(f->event, 100000), 0);
	for (int i = 0; i < 4; i++)
		peer_close(&p[i]);
}

/* Listening */

static void replaces_a_socket_left_behind(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct stat st;

	strcpy(address.sun_path, f->place.path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	start_server(f, &config);
	assert_int_equal(stat(f->place.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	expect_alive(f);
}

static void leaves_a_socket_that_is_answered(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	struct varlink_server *second;

	assert_int_equal(varlink_server_new(&second, f->event, &config), 0);
	assert_int_equal(varlink_server_listen(second, f->place.path, 0666), -EADDRINUSE);
	varlink_server_free(second);
	expect_alive(f);
}

static void leaves_what_is_no_socket(void **state)
{
	struct fixture *f = *state;
	struct varlink_config config = test_config(f);
	int fd = open(f->place.path, O_CREAT | O_WRONLY, 0600);

	close(fd);
	assert_int_equal(varlink_server_new(&f->server, f->event, &config), 0);
	assert_int_equal(varlink_server_listen(f->server, f->place.path, 0666), -EEXIST);
	assert_int_equal(unlink(f->place.path), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_IDLE(name) cmocka_unit_test_setup_teardown(name, setup_idle, teardown)
	const struct CMUnitTest tests[] = {
		TEST(answers_one_call),
		TEST(space_around_a_call_means_nothing),
		TEST(answers_pipelined_calls_in_order),
		TEST(takes_a_call_byte_by_byte),
		TEST(answers_after_half_close),
		TEST(closes_on_half_a_call),
		TEST(closes_on_what_is_no_call),
		TEST(closes_on_deep_nesting),
		TEST(takes_the_longest_call),
		TEST(closes_on_too_long_a_call),
		TEST(answers_errors),
		TEST(optional_parameters_may_be_null),
		TEST(oneway_has_no_answer),
		TEST(more_on_a_plain_method_is_no_error),
		TEST(tells_about_itself),
		TEST(describes_interfaces),
		TEST(later_calls_wait_for_the_answer),
		TEST(a_kept_call_ends_with_its_connection),
		TEST(a_kept_call_ends_with_the_server),
		TEST(streams_at_the_readers_pace),
		TEST(streams_wide_rows),
		TEST(a_reader_may_go_in_the_middle_of_a_stream),
		TEST(the_server_may_go_in_the_middle_of_a_stream),
		TEST_IDLE(cuts_a_reader_that_stalls),
		TEST_IDLE(a_slow_reader_does_not_stall),
		TEST_IDLE(an_idle_connection_does_not_stall),
		TEST_IDLE(cuts_a_reader_that_never_reads_its_answers),
		TEST(cuts_a_reader_whose_answers_pile_up),
		TEST_IDLE(limits_connections),
		TEST_IDLE(limits_connections_of_a_user),
		TEST(lets_other_callers_have_their_turn),
		TEST(a_stream_lets_other_callers_have_their_turn),
		TEST(waits_for_what_is_urgent),
		TEST(does_nothing_when_there_is_nothing_to_do),
		TEST_IDLE(replaces_a_socket_left_behind),
		TEST(leaves_a_socket_that_is_answered),
		TEST_IDLE(leaves_what_is_no_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
