/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rules-test.c - rules.c on the running kernel, in its own network namespace. Needs root and nft.
 *
 *     lo 10.8.0.1 fd08::1 ----> masquerade ----> wan0 10.9.0.1 fd09::1 ====veth==== far0
 *                               (foreign)        lan0 10.7.0.1        ====veth==== (its peer)
 *
 * Connections from lo's addresses are translated when they leave through wan0 or lan0. Nobody
 * answers them. The tests compare the output of nft(8) with the expected one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <libmnl/libmnl.h>

#include "rules/rules.h"

#ifndef CONF_DIR
#define CONF_DIR "conf"
#endif

#define QUEUE 5

static const struct rules_config one_queue = { .queue_num = QUEUE, .queues = 1 };
static const struct rules_config two_queues = { .queue_num = QUEUE, .queues = 2 };
static const struct rules_config segments = {
	.queue_num = QUEUE, .queues = 1, .segments = true, .mark_mask = 0x20000
};
static const char *const wan[] = { "wan0" };
static const char *const both[] = { "wan0", "lan0" };

static bool has_native_queue; /* the kernel has nft's queue expression */

struct state {
	struct rules *rules; /* owned */
	char *before;	     /* owned: the output of nft before our tables were installed */
};

/* ---- nft(8) and the shell ---- */

/* Run COMMAND. Returns its standard output, owned by the caller. */
static char *output_of(const char *command)
{
	char quiet[512]; /* without nft's warnings that tables with xtables targets are iptables' */
	char *text = NULL;
	size_t size = 0;
	FILE *p;

	snprintf(quiet, sizeof(quiet), "exec 2>/dev/null; %s", command);
	p = popen(quiet, "r");

	assert_non_null(p);
	if (getdelim(&text, &size, '\0', p) < 0) {
		free(text);
		text = strdup("");
	}
	if (pclose(p) != 0)
		fail_msg("failed: %s", command);
	return text;
}

static void run(const char *command)
{
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static char *list(void)
{
	return output_of("nft -a list ruleset");
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
		n++;
	return n;
}

/* The number of times that WHAT is in the output of COMMAND. */
static int count_in(const char *command, const char *what)
{
	char *text = output_of(command);
	int n = count(text, what);

	free(text);
	return n;
}

static int count_in_file(const char *path, const char *what)
{
	char command[80];

	snprintf(command, sizeof(command), "cat %s", path);
	return count_in(command, what);
}

static void assert_same_output(const char *command, const char *expected)
{
	char *text = output_of(command);

	assert_string_equal(text, expected);
	free(text);
}

/* One rule in each family, and nothing else in the chains. */
static void assert_one_rule_each(void)
{
	assert_int_equal(count_in("nft list chain ip tsnatd postrouting", "counter"), 1);
	assert_int_equal(count_in("nft list chain ip6 tsnatd postrouting", "counter"), 1);
}

static long counted(const char *family)
{
	char command[80];
	char *text, *p;
	long n;

	snprintf(command, sizeof(command), "nft list chain %s tsnatd postrouting", family);
	text = output_of(command);
	p = strstr(text, "counter packets ");
	assert_non_null(p);
	n = strtol(p + strlen("counter packets "), NULL, 10);
	free(text);
	return n;
}

/* ---- the namespace ---- */

static const char network[] =
	"set -e\n"
	"ip link set lo up\n"
	"ip addr add 10.8.0.1/32 dev lo; ip addr add fd08::1/128 dev lo\n"
	"ip link add wan0 type veth peer name far0; ip link add lan0 type veth peer name lan1\n"
	"for i in wan0 far0 lan0 lan1; do ip link set $i up; done\n"
	"ip addr add 10.9.0.1/24 dev wan0; ip addr add fd09::1/64 dev wan0 nodad\n"
	"ip addr add 10.7.0.1/24 dev lan0\n"
	"ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev wan0\n"
	"ip neigh add fd09::9 lladdr 02:00:00:00:00:09 dev wan0\n"
	"ip neigh add 10.7.0.9 lladdr 02:00:00:00:00:09 dev lan0\n";

/* The nft tables of other tools. They must not change. */
static const char foreign[] =
	"nft -f - <<'EOF'\n"
	"flush ruleset\n"
	"table inet filter {\n"
	"	set ifaces { type ipv4_addr; elements = { 192.0.2.1, 192.0.2.2 } }\n"
	"	chain input { type filter hook input priority 0; policy accept;\n"
	"		ip saddr @ifaces drop; }\n"
	"	chain postrouting { type filter hook postrouting priority 110; policy accept; }\n"
	"}\n"
	"table ip nat {\n"
	"	chain postrouting { type nat hook postrouting priority 100;\n"
	"		oifname { wan0, lan0 } masquerade; }\n"
	"}\n"
	"table ip6 nat {\n"
	"	chain postrouting { type nat hook postrouting priority 100;\n"
	"		oifname wan0 masquerade; }\n"
	"}\n"
	"table ip tsnatd2 {\n"
	"	chain postrouting { type filter hook postrouting priority 110; policy accept;\n"
	"		tcp dport 1 drop; }\n"
	"}\n"
	"EOF\n";

static const char native_queue[] =
	"nft -c 'table ip probe { chain c { queue flags bypass to 5; }; }' 2>/dev/null";

static int make_namespace(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNET) < 0) {
		perror("unshare(CLONE_NEWNET)");
		return -1;
	}
	run(network);
	has_native_queue = system(native_queue) == 0;
	print_message("rules-test: expecting the %s\n",
		      has_native_queue ? "queue expression" : "xtables target NFQUEUE");
	return 0;
}

static int begin(void **state)
{
	struct state *s = calloc(1, sizeof(*s));

	if (!s || rules_new(&s->rules, &one_queue) < 0)
		return -1;
	run(foreign);
	s->before = list();
	*state = s;
	return 0;
}

static int end(void **state)
{
	struct state *s = *state;

	rules_free(s->rules);
	free(s->before);
	free(s);
	return 0;
}

static void install(struct rules *r, const char *const *ifaces, size_t n)
{
	const char *error = NULL;

	if (rules_install(r, ifaces, n, &error) < 0)
		fail_msg("rules_install: %s", error);
}

/* As after SIGKILL: the socket is closed, but our nft tables stay. */
static void crash_and_restart(struct state *s, const struct rules_config *cfg)
{
	rules_free(s->rules);
	s->rules = NULL;
	assert_int_equal(rules_new(&s->rules, cfg), 0);
}

/* ---- packets ---- */

static void send_syn(int family, const struct sockaddr *from, const struct sockaddr *to,
		     socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, from, len), 0);
	assert_int_equal(connect(fd, to, len), -1);
	assert_int_equal(errno, EINPROGRESS);
	close(fd);
}

static void send_syn4(const char *from, const char *to)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct sockaddr_in b = { .sin_family = AF_INET, .sin_port = htons(80) };

	inet_pton(AF_INET, from, &a.sin_addr);
	inet_pton(AF_INET, to, &b.sin_addr);
	send_syn(AF_INET, (struct sockaddr *)&a, (struct sockaddr *)&b, sizeof(a));
}

static void send_syn6(const char *from, const char *to)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6 };
	struct sockaddr_in6 b = { .sin6_family = AF_INET6, .sin6_port = htons(80) };

	inet_pton(AF_INET6, from, &a.sin6_addr);
	inet_pton(AF_INET6, to, &b.sin6_addr);
	send_syn(AF_INET6, (struct sockaddr *)&a, (struct sockaddr *)&b, sizeof(a));
}

/* Send a bare TCP header with FLAGS from lo's address to the far side. Each is a new connection. */
static void send_flags(uint8_t flags)
{
	static uint16_t port = 40000;
	uint8_t tcp[20] = { 0 };
	struct sockaddr_in a = { .sin_family = AF_INET }, b = a;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);

	assert_true(fd >= 0);
	inet_pton(AF_INET, "10.8.0.1", &a.sin_addr);
	inet_pton(AF_INET, "10.9.0.9", &b.sin_addr);
	port++;
	tcp[0] = (uint8_t)(port >> 8);
	tcp[1] = (uint8_t)port;
	tcp[3] = 80;
	tcp[12] = 5 << 4;
	tcp[13] = flags;
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(sendto(fd, tcp, sizeof(tcp), 0, (struct sockaddr *)&b, sizeof(b)), 20);
	close(fd);
}

static long sent_through(const char *iface)
{
	char command[80];
	char *text;
	long n;

	snprintf(command, sizeof(command), "sed -n 's/^ *%s://p' /proc/net/dev | awk '{print $10}'",
		 iface);
	text = output_of(command);
	n = strtol(text, NULL, 10);
	free(text);
	return n;
}

static void queue_config(struct mnl_socket *nl, uint16_t num, uint16_t attr, const void *data,
			 size_t len)
{
	char buf[256];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct nfgenmsg *nfg;

	nlh->nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_CONFIG;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nfg = mnl_nlmsg_put_extra_header(nlh, sizeof(*nfg));
	*nfg = (struct nfgenmsg){ .version = NFNETLINK_V0, .res_id = htons(num) };
	mnl_attr_put(nlh, attr, len, data);

	assert_true(mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) > 0);
	assert_true(mnl_socket_recvfrom(nl, buf, sizeof(buf)) > 0);
	assert_int_equal(((struct nlmsgerr *)mnl_nlmsg_get_payload(nlh))->error, 0);
}

/* Bind a queue like a daemon that never gives a verdict. */
static struct mnl_socket *bind_queue(uint16_t num)
{
	struct nfqnl_msg_config_cmd cmd = { .command = NFQNL_CFG_CMD_BIND };
	struct nfqnl_msg_config_params params = { .copy_range = htonl(100),
						  .copy_mode = NFQNL_COPY_PACKET };
	struct mnl_socket *nl = mnl_socket_open(NETLINK_NETFILTER);

	assert_non_null(nl);
	assert_int_equal(mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID), 0);
	queue_config(nl, num, NFQA_CFG_CMD, &cmd, sizeof(cmd));
	queue_config(nl, num, NFQA_CFG_PARAMS, &params, sizeof(params));
	return nl;
}

/* The number of packets that wait in the queues of this namespace. */
static long waiting(void)
{
	FILE *f = fopen("/proc/self/net/netfilter/nfnetlink_queue", "r");
	long n, sum = 0;

	assert_non_null(f);
	while (fscanf(f, "%*d %*d %ld %*[^\n]", &n) == 1)
		sum += n;
	fclose(f);
	return sum;
}

/* ---- tests: installing ---- */

static void test_install(void **state)
{
	static const char hook[] = "type filter hook postrouting priority srcnat + 10; "
				   "policy accept;";
	static const char rule[] = "oifname @ifaces tcp flags syn / fin,syn,rst,ack ct status snat "
				   "counter packets 0 bytes 0 queue";
	struct state *s = *state;
	char *text;

	assert_int_equal(rules_get_kind(s->rules), RULES_NONE);
	install(s->rules, both, 2);
	assert_int_equal(rules_get_kind(s->rules), has_native_queue ? RULES_QUEUE : RULES_NFQUEUE);

	text = output_of("nft list table ip tsnatd; nft list table ip6 tsnatd");
	assert_int_equal(count(text, hook), 2);
	assert_int_equal(count(text, rule), 2);
	assert_int_equal(count(text, "type ifname"), 2);
	assert_int_equal(count(text, "\"wan0\""), 2);
	assert_int_equal(count(text, "\"lan0\""), 2);
	assert_int_equal(count(text, "bypass"), 2);
	assert_int_equal(count(text, "fanout"), 0);
	free(text);
}

/* In nft's JSON a set with a wrong key type would show no interface names. */
static void test_install_as_json(void **state)
{
	static const char hook[] = "\"hook\": \"postrouting\", \"prio\": 110, "
				   "\"policy\": \"accept\"";
	const char *queue = has_native_queue ? "{\"queue\": " : "\"name\": \"NFQUEUE\"";
	struct state *s = *state;
	char *text;

	install(s->rules, wan, 1);
	text = output_of("nft -j list ruleset");
	assert_int_equal(count(text, "\"table\": \"tsnatd\", \"type\": \"ifname\""), 2);
	assert_int_equal(count(text, "\"elem\": [\"wan0\"]"), 2);
	assert_int_equal(count(text, hook), 4);
	assert_int_equal(count(text, queue), 2);
	free(text);
}

static void test_fanout(void **state)
{
	struct state *s = *state;
	char *text;

	crash_and_restart(s, &two_queues);
	install(s->rules, wan, 1);
	text = output_of("nft list ruleset");
	assert_int_equal(count(text, "bypass,fanout"), 2);
	assert_int_equal(count(text, "5-6"), 2);
	free(text);
}

/* The handles show that chain and set stay, while the rule and the elements are replaced. */
static void test_install_again(void **state)
{
	static const char stable[] = "nft -a list ruleset | grep -v 'counter packets'";
	struct state *s = *state;
	char *first;

	install(s->rules, both, 2);
	first = output_of(stable);
	install(s->rules, both, 2);
	install(s->rules, both, 2);
	assert_same_output(stable, first);
	assert_one_rule_each();
	free(first);
}

static void test_take_over(void **state)
{
	struct state *s = *state;
	char *chain = NULL;

	install(s->rules, both, 2);
	run("nft add rule ip tsnatd postrouting counter accept");
	chain = output_of("nft -a list ruleset | grep -E 'chain|set ifaces'");

	crash_and_restart(s, &two_queues);
	assert_int_equal(rules_present(s->rules), 0); /* the installed rule has one queue */
	install(s->rules, wan, 1);
	assert_same_output("nft -a list ruleset | grep -E 'chain|set ifaces'", chain);
	assert_one_rule_each();
	assert_int_equal(count_in("nft list ruleset", "5-6"), 2);
	assert_int_equal(count_in("nft list set ip tsnatd ifaces", "lan0"), 0);
	assert_int_equal(rules_present(s->rules), 1);
	free(chain);
}

/* One nft table is missing, the other one dormant. */
static void test_take_over_half(void **state)
{
	struct state *s = *state;

	install(s->rules, both, 2);
	run("nft delete table ip6 tsnatd; nft 'table ip tsnatd { flags dormant; }'");
	crash_and_restart(s, &one_queue);
	assert_int_equal(rules_present(s->rules), 0);
	install(s->rules, both, 2);
	assert_int_equal(rules_present(s->rules), 1);
	assert_int_equal(count_in("nft list ruleset", "dormant"), 0);
	assert_one_rule_each();
	send_syn4("10.8.0.1", "10.9.0.9");
	assert_int_equal(counted("ip"), 1);
}

static void test_foreign_table_of_our_name(void **state)
{
	struct state *s = *state;
	const char *error = NULL;
	char *before;

	run("nft 'table ip tsnatd { chain postrouting {"
	    " type filter hook postrouting priority 0; counter; }; }'");
	before = list();
	/* EEXIST or EOPNOTSUPP, depending on the kernel. */
	assert_true(rules_install(s->rules, wan, 1, &error) < 0);
	assert_non_null(strstr(error, "(chain postrouting); delete"));
	assert_same_output("nft -a list ruleset", before);
	assert_int_equal(rules_get_kind(s->rules), RULES_NONE);
	assert_int_equal(rules_present(s->rules), 0);
	free(before);

	run("nft delete table ip tsnatd; nft 'table ip6 tsnatd { set ifaces { type mark; }; }'");
	before = list();
	assert_true(rules_install(s->rules, wan, 1, &error) < 0);
	assert_non_null(strstr(error, "delete it first"));
	assert_same_output("nft -a list ruleset", before);
	free(before);
}

static void test_bad_names(void **state)
{
	static const char *const bad[][2] = { { "wan0", "" }, { "abcdefghijklmnop", "wan0" } };
	static const char *const longest[] = { "abcdefghijklmno" };
	struct state *s = *state;
	const char *error = NULL;

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rules_install(s->rules, bad[i], 2, &error), -EINVAL);
		assert_non_null(strstr(error, "interface name"));
		assert_int_equal(rules_set_interfaces(s->rules, bad[i], 2), -EINVAL);
	}
	assert_same_output("nft -a list ruleset", s->before);
	assert_int_equal(rules_install(s->rules, longest, 1, NULL), 0);
	assert_int_equal(count_in("nft list ruleset", "\"abcdefghijklmno\""), 2);
}

static void test_bad_config(void **state)
{
	struct rules *r = NULL;

	(void)state;
	assert_int_equal(rules_new(&r, &(struct rules_config){ .queue_num = 5 }), -EINVAL);
	assert_int_equal(rules_new(&r, &(struct rules_config){ .queue_num = 65535, .queues = 2 }),
			 -EINVAL);
	assert_null(r);
	assert_int_equal(rules_new(&r, &(struct rules_config){ .queue_num = 65535, .queues = 1 }),
			 0);
	rules_free(r);
	rules_free(NULL);
}

/* Runs in a child without privileges. The exit status tells the failed check. */
static int install_as_nobody(void)
{
	struct rules *r = NULL;
	const char *error = "";

	if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
	    setresuid(65534, 65534, 65534) < 0 || rules_new(&r, &one_queue) < 0)
		return 1;
	if (rules_install(r, wan, 1, &error) != -EPERM || !strstr(error, "CAP_NET_ADMIN"))
		return 2;
	if (rules_present(r) != -EPERM || rules_remove(r) != -EPERM || rules_pause(r) != -EPERM)
		return 3;
	rules_free(r);
	return 0;
}

static void test_no_permission(void **state)
{
	struct state *s = *state;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(install_as_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_same_output("nft -a list ruleset", s->before);
}

/* ---- tests: changes and removal ---- */

static void test_set_interfaces(void **state)
{
	static const char all_but_names[] = "nft -a list ruleset | grep -v elements";
	static const char *const twice[] = { "wan0", "wan0" };
	struct state *s = *state;
	char *before;

	assert_int_equal(rules_set_interfaces(s->rules, wan, 1), -ENOENT);
	install(s->rules, wan, 1);
	send_syn4("10.8.0.1", "10.9.0.9");
	assert_int_equal(counted("ip"), 1);
	before = output_of(all_but_names); /* includes the counter */

	assert_int_equal(rules_set_interfaces(s->rules, both + 1, 1), 0);
	assert_int_equal(count_in("nft list ruleset", "{ \"lan0\" }"), 2);
	assert_same_output(all_but_names, before);
	assert_int_equal(rules_set_interfaces(s->rules, NULL, 0), 0);
	assert_int_equal(count_in("nft list table ip tsnatd", "elements"), 0);
	assert_same_output(all_but_names, before);
	assert_int_equal(rules_set_interfaces(s->rules, twice, 2), 0);
	assert_int_equal(count_in("nft list ruleset", "{ \"wan0\" }"), 2);
	free(before);
}

static void test_many_interfaces(void **state)
{
	enum { N = 1000 };
	static char names[N][16];
	static const char *list_of[N];
	struct state *s = *state;

	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "ppp-gateway%d", i);
		list_of[i] = names[i];
	}
	install(s->rules, list_of, N);
	assert_int_equal(count_in("nft list ruleset", "\"ppp-gateway"), 2 * N);
	assert_int_equal(rules_set_interfaces(s->rules, list_of + 1, N - 1), 0);
	assert_int_equal(count_in("nft list ruleset", "\"ppp-gateway"), 2 * N - 2);
	assert_int_equal(rules_present(s->rules), 1);
}

static void test_pause(void **state)
{
	struct state *s = *state;
	char *chains;

	install(s->rules, wan, 1);
	chains = output_of("nft -a list ruleset | grep -v 'counter packets'");
	assert_int_equal(rules_pause(s->rules), 0);
	assert_same_output("nft -a list ruleset", chains); /* only the rules are gone */
	assert_int_equal(rules_present(s->rules), 0);
	assert_int_equal(rules_get_kind(s->rules), RULES_NONE);
	assert_int_equal(rules_pause(s->rules), 0);

	install(s->rules, wan, 1);
	assert_one_rule_each();
	free(chains);
}

static void test_remove(void **state)
{
	struct state *s = *state;

	assert_int_equal(rules_remove(s->rules), 0); /* nothing is installed */
	install(s->rules, both, 2);
	assert_int_equal(rules_remove(s->rules), 0);
	assert_same_output("nft -a list ruleset", s->before);
	assert_int_equal(rules_get_kind(s->rules), RULES_NONE);
}

/* One nft table is missing: the other one is removed all the same. */
static void test_remove_and_pause_half(void **state)
{
	struct state *s = *state;

	install(s->rules, wan, 1);
	run("nft delete table ip tsnatd");
	assert_int_equal(rules_pause(s->rules), 0);
	assert_int_equal(count_in("nft list table ip6 tsnatd", "counter"), 0);
	assert_int_equal(rules_remove(s->rules), 0);
	assert_same_output("nft -a list ruleset", s->before);
}

static void test_present(void **state)
{
	static const char *const damage[] = {
		"nft flush ruleset",
		"nft delete table ip tsnatd",
		"nft delete table ip6 tsnatd",
		"nft flush chain ip6 tsnatd postrouting",
		"nft flush chain ip tsnatd postrouting; nft add rule ip tsnatd postrouting counter",
		"nft 'table ip6 tsnatd { flags dormant; }'",
	};
	struct state *s = *state;

	assert_int_equal(rules_present(s->rules), 0);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		install(s->rules, wan, 1);
		assert_int_equal(rules_present(s->rules), 1);
		run(damage[i]);
		if (rules_present(s->rules) != 0)
			fail_msg("not noticed: %s", damage[i]);
	}
}

/*
 * All parts exist, but the chain runs before NAT. If the kernel lacks the queue expression, nft(8)
 * cannot load our rule, and "accept" takes its place.
 */
static void test_present_wrong_chain(void **state)
{
	struct state *s = *state;
	char command[400];

	install(s->rules, wan, 1);
	snprintf(
		command, sizeof(command),
		"t=$(nft list table ip6 tsnatd 2>/dev/null | sed 's/srcnat + 10/srcnat - 10/%s') &&"
		" nft delete table ip6 tsnatd && echo \"$t\" | nft -f -",
		has_native_queue ? "" : "; s/queue num .*/accept/");
	run(command);
	assert_int_equal(count_in("nft list table ip6 tsnatd", "srcnat - 10"), 1);
	assert_one_rule_each();
	assert_int_equal(rules_present(s->rules), 0);
}

/* ---- tests: rules for the queue datapath ---- */

static void test_segments(void **state)
{
	static const char *const damage[] = {
		"nft flush chain ip tsnatd shifted_in",
		"nft flush chain ip6 tsnatd shifted_out",
		"nft delete chain ip tsnatd shifted_in; nft flush chain ip tsnatd shifted_out",
	};
	struct state *s = *state;
	char *text;

	crash_and_restart(s, &segments);
	install(s->rules, wan, 1);
	text = output_of("nft list table ip6 tsnatd");
	assert_int_equal(count(text, "queue"), 6);
	/* SYNs, FINs, strays and refusals bypass a queue without reader, shifted segments never. */
	assert_int_equal(count(text, "bypass"), 4);
	assert_int_equal(
		count(text,
		      "ct mark set ct mark | 0x00020000 meta mark set meta mark & 0xfffdffff"),
		1);
	free(text);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		install(s->rules, wan, 1);
		assert_int_equal(rules_present(s->rules), 1);
		run(damage[i]);
		if (rules_present(s->rules) != 0)
			fail_msg("not noticed: %s", damage[i]);
	}
}

/* A pause stops only SYNs: segments of open connections must not leave without their shift. */
static void test_segments_pause(void **state)
{
	struct state *s = *state;

	crash_and_restart(s, &segments);
	install(s->rules, wan, 1);
	assert_int_equal(rules_pause(s->rules), 0);
	assert_int_equal(count_in("nft list chain ip tsnatd postrouting", "queue"), 0);
	assert_int_equal(count_in("nft list chain ip tsnatd shifted_out", "queue"), 1);
	assert_int_equal(count_in("nft list chain ip tsnatd shifted_in", "queue"), 2);
	/* The bpf datapath binds no queues for segments, so no rule may queue them. */
	crash_and_restart(s, &one_queue);
	install(s->rules, wan, 1);
	assert_int_equal(count_in("nft list ruleset", "queue"), 2);
	assert_int_equal(rules_remove(s->rules), 0);
}

static void test_segments_config(void **state)
{
	struct rules *r = NULL;

	(void)state;
	assert_int_equal(rules_new(&r, &(struct rules_config){ .queue_num = 65534,
							       .queues = 1,
							       .segments = true,
							       .mark_mask = 1 }),
			 -EINVAL);
	assert_int_equal(rules_new(&r, &(struct rules_config){ .queues = 1, .segments = true }),
			 -EINVAL);
	assert_null(r);
}

/* ---- tests: packets ---- */

static void test_which_connections(void **state)
{
	struct state *s = *state;
	long sent;

	install(s->rules, wan, 1);
	sent = sent_through("wan0");
	send_syn4("10.8.0.1", "10.9.0.9");
	send_syn6("fd08::1", "fd09::9");
	assert_int_equal(counted("ip"), 1);
	assert_int_equal(counted("ip6"), 1);
	assert_true(sent_through("wan0") >= sent + 2); /* no queue is bound: bypass */

	send_syn4("10.9.0.1", "10.9.0.9"); /* the interface's own address is not translated */
	send_syn4("10.8.0.1", "10.7.0.9"); /* another interface */
	assert_int_equal(counted("ip"), 1);
	assert_int_equal(rules_set_interfaces(s->rules, both, 2), 0);
	send_syn4("10.8.0.1", "10.7.0.9");
	assert_int_equal(counted("ip"), 2);
}

static void test_which_segments(void **state)
{
	enum { ECE = 0x40, CWR = 0x80 };
	static const uint8_t yes[] = { TH_SYN, TH_SYN | ECE | CWR, TH_SYN | TH_PUSH };
	static const uint8_t no[] = { TH_ACK,	       TH_SYN | TH_ACK,
				      TH_SYN | TH_FIN, TH_SYN | TH_RST,
				      TH_FIN | TH_ACK, TH_RST,
				      TH_RST | TH_ACK, 0 };
	struct state *s = *state;

	install(s->rules, wan, 1);
	for (size_t i = 0; i < sizeof(yes); i++)
		send_flags(yes[i]);
	assert_int_equal(counted("ip"), sizeof(yes));
	for (size_t i = 0; i < sizeof(no); i++)
		send_flags(no[i]);
	assert_int_equal(counted("ip"), sizeof(yes));
}

/* A reload must not drop waiting packets. Only rules_remove() does, which no reload calls. */
static void test_waiting_packets_survive(void **state)
{
	struct state *s = *state;
	struct mnl_socket *nl = bind_queue(QUEUE);

	install(s->rules, wan, 1);
	send_syn4("10.8.0.1", "10.9.0.9");
	send_syn6("fd08::1", "fd09::9");
	assert_int_equal(waiting(), 2);

	install(s->rules, both, 2);
	assert_int_equal(waiting(), 2);
	crash_and_restart(s, &two_queues);
	install(s->rules, wan, 1);
	assert_int_equal(rules_set_interfaces(s->rules, both, 2), 0);
	assert_int_equal(rules_pause(s->rules), 0);
	assert_int_equal(rules_present(s->rules), 0);
	assert_int_equal(waiting(), 2);

	send_syn4("10.8.0.1", "10.9.0.9"); /* paused: is not queued */
	assert_int_equal(waiting(), 2);
	assert_int_equal(rules_remove(s->rules), 0);
	assert_int_equal(waiting(), 0);
	mnl_socket_close(nl);
}

/* ---- tests: text ---- */

/* Replaces the queue statement, which this kernel may lack, so that the rest can be compared. */
#define WITHOUT_QUEUE " | sed 's/queue .*/accept/; s/ # handle.*//'"

static void print_to(const char *path, const struct rules_config *cfg, const char *const *ifaces,
		     size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	rules_print(f, cfg, ifaces, n);
	assert_int_equal(fclose(f), 0);
}

/* The rules of the file, loaded twice, must be listed like those that rules_install() made. */
static void assert_file_is_like_installed(const char *path)
{
	char command[256];
	char *installed = output_of("nft list ruleset" WITHOUT_QUEUE);

	run(foreign);
	snprintf(command, sizeof(command), "sed '/^#/!s/queue .*/accept/' %s | nft -f -", path);
	run(command);
	run(command);
	assert_same_output("nft list ruleset" WITHOUT_QUEUE, installed);
	free(installed);
}

/* The number of rules in the file that queue. */
static int count_in_rules(const char *path)
{
	char command[96];

	snprintf(command, sizeof(command), "grep -v '^#' %s", path);
	return count_in(command, "queue flags") + count_in(command, "queue to");
}

/* nft(8) may report that the kernel lacks the queue statement, but no syntax error. */
static void assert_nft_understands(const char *path)
{
	char command[256], errors[16];

	snprintf(errors, sizeof(errors), "%d\n", has_native_queue ? 0 : count_in_rules(path));
	snprintf(command, sizeof(command), "nft -c -f %s 2>&1 | grep -c 'Error: '; true", path);
	assert_same_output(command, errors);
	snprintf(command, sizeof(command),
		 "nft -c -f %s 2>&1 | grep 'Error: ' | grep -vc 'rule: No such file'; true", path);
	assert_same_output(command, "0\n");
}

static void test_print(void **state)
{
	char path[] = "/tmp/rules-test-XXXXXX";
	struct state *s = *state;

	close(mkstemp(path));
	print_to(path, &one_queue, both, 2);
	assert_int_equal(count_in_file(path, "queue flags bypass to 5\n"), 2);
	assert_nft_understands(path);
	print_to(path, &two_queues, NULL, 0);
	assert_int_equal(count_in_file(path, "queue flags bypass,fanout to 5-6\n"), 2);
	assert_nft_understands(path);

	install(s->rules, both, 2);
	print_to(path, &one_queue, both, 2);
	assert_file_is_like_installed(path);

	print_to(path, &segments, both, 2);
	assert_nft_understands(path);
	crash_and_restart(s, &segments);
	install(s->rules, both, 2);
	assert_file_is_like_installed(path);
	unlink(path);
}

static void test_shipped_file(void **state)
{
	struct state *s = *state;

	assert_nft_understands(CONF_DIR "/tsnatd.nft");
	install(s->rules, (const char *const[]){ "eth0" }, 1);
	assert_file_is_like_installed(CONF_DIR "/tsnatd.nft");
}

static void test_shipped_file_of_the_queue_datapath(void **state)
{
	struct state *s = *state;

	assert_nft_understands(CONF_DIR "/tsnatd-queue.nft");
	crash_and_restart(s, &segments);
	install(s->rules, (const char *const[]){ "eth0" }, 1);
	assert_file_is_like_installed(CONF_DIR "/tsnatd-queue.nft");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_install),
		TEST(test_install_as_json),
		TEST(test_fanout),
		TEST(test_install_again),
		TEST(test_take_over),
		TEST(test_take_over_half),
		TEST(test_foreign_table_of_our_name),
		TEST(test_bad_names),
		TEST(test_bad_config),
		TEST(test_no_permission),
		TEST(test_set_interfaces),
		TEST(test_many_interfaces),
		TEST(test_pause),
		TEST(test_remove),
		TEST(test_remove_and_pause_half),
		TEST(test_present),
		TEST(test_present_wrong_chain),
		TEST(test_segments),
		TEST(test_segments_pause),
		TEST(test_segments_config),
		TEST(test_which_connections),
		TEST(test_which_segments),
		TEST(test_waiting_packets_survive),
		TEST(test_print),
		TEST(test_shipped_file),
		TEST(test_shipped_file_of_the_queue_datapath),
	};

	return cmocka_run_group_tests_name("rules", tests, make_namespace, NULL);
}
