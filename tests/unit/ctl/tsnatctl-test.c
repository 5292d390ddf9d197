// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tsnatctl-test.c - tsnatctl against a server whose answers are invented. TSNATCTL in the
 * environment can name another tsnatctl than the one of this build.
 */
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "../varlink/gateway-source.h"

static char tsnatctl[4096];

/* The test program is two folders below tsnatctl. */
static void find_tsnatctl(const char *test)
{
	const char *named = getenv("TSNATCTL"), *slash = strrchr(test, '/');

	if (named)
		snprintf(tsnatctl, sizeof(tsnatctl), "%s", named);
	else
		snprintf(tsnatctl, sizeof(tsnatctl), "%.*s/../../tsnatctl",
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
 * Run tsnatctl with ARGS, split at spaces, while the server serves it. The output is both standard
 * output and standard error.
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

/* Without a terminal, top prints one block of lines after the other until a signal ends it. */
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, gateway_setup, gateway_teardown)
	const struct CMUnitTest tests[] = {
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
