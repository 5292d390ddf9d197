// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * config-test.c - configuration file and command line: values that are accepted, and the line that
 * is reported for each that is not.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"
#include "core/decide.h"

/* libconfig 1.5 leaks 64 bytes for each file with a string that has no end. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\n";
}

struct said {
	char text[4096];
	unsigned int lines, notices;
};

static char path[] = "/tmp/config-test.XXXXXX";

static void report(void *user, int level, const char *line)
{
	struct said *s = user;
	size_t n = strlen(s->text);

	/* the name of the file differs from run to run */
	if (!strncmp(line, path, strlen(path))) {
		line += strlen(path);
		line += strspn(line, ": ");
	}
	snprintf(s->text + n, sizeof(s->text) - n, "%s\n", line);
	s->lines++;
	s->notices += level == LOG_NOTICE;
}

static int parse_bytes(struct config *c, struct said *s, const char *bytes, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
	memset(s, 0, sizeof(*s));
	config_defaults(c);
	return config_parse_file(c, path, report, s);
}

static int parse(struct config *c, struct said *s, const char *text)
{
	return parse_bytes(c, s, text, strlen(text));
}

static void assert_refused(const char *text, const char *said)
{
	struct config c, before;
	struct said s;

	config_defaults(&before);
	assert_int_equal(parse(&c, &s, text), -EINVAL);
	assert_string_equal(s.text, said);
	assert_memory_equal(&c, &before, sizeof(c));
}

static void test_every_option(void **state)
{
	struct config c;
	struct said s;

	(void)state;
	assert_int_equal(parse(&c, &s,
			       "interfaces = [ \"eth0\", \"ppp0\" ];\n"
			       "external = [ \"192.0.2.0/24\", \"2001:db8::1\" ];\n"
			       "policy = \"unify\"; scope = \"tuple\"; datapath = \"queue\"; "
			       "decide = \"queue\"; rules = \"none\";\n"
			       "state_dir = \"/a\"; runtime_dir = \"/b\"; pin_dir = \"/c\";\n"
			       "queue_num = 7; queues = 3; hold = 60; records = 1000; mark_mask = "
			       "0x80000000;\n"
			       "conntrack_events = false; log_level = \"debug\";\n"),
			 0);
	assert_string_equal(s.text, "");
	assert_int_equal(c.n_interfaces, 2);
	assert_string_equal(c.interfaces[1], "ppp0");
	assert_int_equal(c.n_external, 2);
	assert_int_equal(c.external[0].len, 96 + 24);
	assert_int_equal(c.external[1].len, 128);
	assert_int_equal(c.policy, POLICY_UNIFY);
	assert_int_equal(c.scope, SCOPE_TUPLE);
	assert_int_equal(c.datapath, CONFIG_DATAPATH_QUEUE);
	assert_int_equal(c.rules, CONFIG_RULES_NONE);
	assert_string_equal(c.state_dir, "/a");
	assert_string_equal(c.pin_dir, "/c");
	assert_int_equal(c.queue_num, 7);
	assert_int_equal(c.queues, 3);
	assert_int_equal(c.hold, 60);
	assert_int_equal(c.records, 1000);
	assert_true(c.mark_mask == 0x80000000);
	assert_false(c.conntrack_events);
	assert_string_equal(config_policy_name(c.policy), "unify");
}

static void test_an_empty_file_changes_nothing(void **state)
{
	static const char *const empty[] = { "", "\n\n", "# nothing\n// here\n/* at\nall */" };
	struct config c, before;
	struct said s;

	(void)state;
	config_defaults(&before);
	for (size_t i = 0; i < sizeof(empty) / sizeof(*empty); i++) {
		assert_int_equal(parse(&c, &s, empty[i]), 0);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

static void test_all_problems_in_one_go(void **state)
{
	(void)state;
	assert_refused(
		"hold = 5;\n"
		"/* a comment with \"\n"
		" */ policy = \"both;//\" # of them\n"
		"hold = 7000000000; scope = 3;\n"
		"policy = \"unify\";\n"
		"interfaces = ( \"eth0\", \"much-too-long-for-a-name\", 5 ); bogus: 5\n"
		"mark_mask=0x1ffffffff; records = 1.5; queue_num = -1; log_level = \"loud\";\n"
		"external = [ \"1.2.3.4/33\", \"::/129\", \"x\" ]; conntrack_events = 1; state_dir "
		"= \"here\"",
		"4: hold: is set twice\n"
		"4: hold: does not fit 32 bits\n"
		"5: policy: is set twice\n"
		"7: mark_mask: does not fit 32 bits\n"
		"3: policy: must be one of: repair unify\n"
		"4: scope: must be a string in quotes\n"
		"6: interfaces: much-too-long-for-a-name is not an interface name (1 to 15 "
		"characters)\n"
		"6: interfaces: must be a string in quotes\n"
		"6: bogus: there is no such option\n"
		"7: records: must be a number\n"
		"7: queue_num: must be a number from 0 to 65535\n"
		"7: log_level: must be one of: error warning notice info debug\n"
		"8: external: 1.2.3.4/33 has an impossible prefix length\n"
		"8: external: ::/129 has an impossible prefix length\n"
		"8: external: x is not an address or prefix\n"
		"8: conntrack_events: must be true or false\n"
		"8: state_dir: must be an absolute path\n");
}

/* libconfig keeps the low 32 bits: without a check, 4294967301 would be a hold of 5 s. */
static void test_numbers_beyond_32_bits(void **state)
{
	struct config c;
	struct said s;

	(void)state;
	assert_refused("hold = 4294967301;", "1: hold: does not fit 32 bits\n");
	assert_refused(
		"hold = 2147483653;",
		"1: hold: does not fit 32 bits\n1: hold: must be a number from 1 to 86400\n");
	assert_refused("hold = 0x100000005;", "1: hold: does not fit 32 bits\n");
	assert_refused(
		"hold = 99999999999999999999;",
		"1: hold: does not fit 32 bits\n1: hold: must be a number from 1 to 86400\n");
	assert_refused("hold = 4294967301L;", "1: hold: must be a number from 1 to 86400\n");
	assert_refused("mark_mask = 0x100000000L;",
		       "1: mark_mask: must be a number from 1 to 4294967295\n");
	assert_int_equal(parse(&c, &s, "mark_mask = 0xFFFFFFFF;"), 0);
	assert_true(c.mark_mask == UINT32_MAX);
	assert_int_equal(parse(&c, &s, "mark_mask = 4294967295L;"), 0);
	assert_true(c.mark_mask == UINT32_MAX);
	/* digits in strings and comments are no numbers */
	assert_int_equal(parse(&c, &s,
			       "state_dir = \"/4294967301\"; # 4294967301\nruntime_dir = "
			       "\"/a\\\"4294967301\";"),
			 0);
}

static void test_ranges(void **state)
{
	struct config c;
	struct said s;

	(void)state;
	assert_refused("hold = 0;", "1: hold: must be a number from 1 to 86400\n");
	assert_refused("hold = 86401;", "1: hold: must be a number from 1 to 86400\n");
	assert_int_equal(parse(&c, &s, "hold = 86400;"), 0);
	assert_refused("queues = 65;", "1: queues: must be a number from 0 to 64\n");
	assert_refused("queue_num = 65536;", "1: queue_num: must be a number from 0 to 65535\n");
}

static void test_what_is_not_a_configuration(void **state)
{
	struct config c;
	struct said s;
	static char big[(1 << 20) + 2];

	(void)state;
	assert_refused("hold 5", "1: syntax error\n");
	assert_refused("hold = \"5", "1: syntax error\n");
	assert_refused("\nhold = 5; /* no end\nhold = 6;", "2: a comment: has no end\n");
	assert_int_equal(parse_bytes(&c, &s, "hold = 5;\0hold = 6;", 19), -EINVAL);
	assert_string_equal(s.text, "is not a text file: it has a zero byte\n");
	memset(big, ' ', sizeof(big));
	assert_int_equal(parse_bytes(&c, &s, big, sizeof(big)), -EFBIG);
	assert_int_equal(parse_bytes(&c, &s, big, 1 << 20), 0);
	assert_int_equal(config_parse_file(&c, "/nonexistent/tsnatd.conf", report, &s), -ENOENT);
	assert_int_equal(config_parse_file(&c, "/", report, &s), -EISDIR);
}

/*
 * Random bytes, and a good file with some bytes changed, give an error or a configuration; they
 * never crash the parser.
 */
static void test_damaged_files(void **state)
{
	static const char good[] = "hold = 60; /* x */ interfaces = [ \"a\", \"b\" ]; # "
				   "y\nmark_mask = 0xff; external = ( \"::/0\" );\n";
	char bytes[sizeof(good)];
	struct config c;
	struct said s;

	(void)state;
	srandom(1);
	for (int i = 0; i < 3000; i++) {
		size_t n = strlen(good);

		memcpy(bytes, good, sizeof(good));
		for (int k = 0; k < 1 + i % 5; k++)
			bytes[(size_t)random() % n] = (char)(1 + random() % 255);
		if (i % 7 == 0)
			for (size_t k = 0; k < n; k++)
				bytes[k] = (char)(1 + random() % 255);
		if (parse_bytes(&c, &s, bytes, n) < 0)
			continue;
		assert_int_equal(s.lines, 0);
		assert_in_range(c.hold, 1, 86400);
	}
}

static int load(struct config *c, struct said *s, const char *args)
{
	char copy[256], *argv[16] = { "tsnatd" }, *save = NULL;
	enum config_action action;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", args);
	for (char *w = strtok_r(copy, " ", &save); w && argc < 15; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	memset(s, 0, sizeof(*s));
	return config_load(c, &action, argc, argv, report, s);
}

static void test_the_command_line_wins(void **state)
{
	struct config c;
	struct said s;
	char args[128];

	(void)state;
	assert_int_equal(parse(&c, &s, "hold = 60; queue_num = 9; interfaces = [ \"a\" ];"), 0);
	snprintf(args, sizeof(args), "-c %s --hold 70 -i b", path);
	assert_int_equal(load(&c, &s, args), 0);
	assert_int_equal(c.hold, 70);
	assert_int_equal(c.queue_num, 9);
	assert_int_equal(c.n_interfaces, 1);
	assert_string_equal(c.interfaces[0], "b");
}

static void test_the_old_name_of_a_word(void **state)
{
	struct config c;
	struct said s;

	(void)state;
	assert_int_equal(parse(&c, &s, "hold = 5;\nrestart_gap = \"hold\";"), 0);
	assert_int_equal(c.restart_gap, CONFIG_GAP_WAIT);
	assert_string_equal(s.text, "2: restart_gap: \"hold\" is now called \"wait\"\n");
	assert_int_equal(s.notices, 1);

	assert_int_equal(load(&c, &s, "-c /dev/null --restart-gap hold"), 0);
	assert_int_equal(c.restart_gap, CONFIG_GAP_WAIT);
	assert_string_equal(s.text, "restart_gap: \"hold\" is now called \"wait\"\n");
	assert_int_equal(s.notices, 1);

	/* other problems in the same file are still refused */
	assert_int_equal(parse(&c, &s, "restart_gap = \"hold\"; hold = 0;"), -EINVAL);
	assert_int_equal(s.lines, 2);
	assert_int_equal(s.notices, 1);

	assert_int_equal(parse(&c, &s, "restart_gap = \"wait\";"), 0);
	assert_int_equal(c.restart_gap, CONFIG_GAP_WAIT);
	assert_int_equal(s.lines, 0);
	assert_refused("restart_gap = \"held\";", "1: restart_gap: must be one of: bypass wait\n");
	assert_refused("policy = \"hold\";", "1: policy: must be one of: repair unify\n");
}

static void test_the_command_line_is_checked(void **state)
{
	struct config c;
	struct said s;

	(void)state;
	assert_true(load(&c, &s, "-c /dev/null --hold 4294967301 --policy both") < 0);
	assert_int_equal(s.lines, 2);
	assert_true(load(&c, &s, "-c /dev/null --hold 5x") < 0);
	assert_true(load(&c, &s, "-c /dev/null --decide kernel --datapath queue") < 0);
	assert_true(load(&c, &s, "-c /dev/null --queue-num 65530 --queues 7") < 0);
	assert_int_equal(load(&c, &s, "-c /dev/null --queue-num 65533 --queues 1"), 0);
	assert_true(load(&c, &s, "-c /dev/null --queue-num 65534 --queues 1 --datapath queue") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_option),
		cmocka_unit_test(test_an_empty_file_changes_nothing),
		cmocka_unit_test(test_all_problems_in_one_go),
		cmocka_unit_test(test_numbers_beyond_32_bits),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_what_is_not_a_configuration),
		cmocka_unit_test(test_damaged_files),
		cmocka_unit_test(test_the_command_line_wins),
		cmocka_unit_test(test_the_old_name_of_a_word),
		cmocka_unit_test(test_the_command_line_is_checked),
	};
	int fd = mkstemp(path), r;

	if (fd < 0)
		return 1;
	close(fd);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return r;
}
