// SPDX-License-Identifier: GPL-2.0-or-later
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "config.h"
#include "config_scan.h"
#include "core/wire.h"
#include "log.h"
#include "util.h"

enum option_kind {
	OPTION_CHOICE,	   /* one of the words in `words`, stored as its index */
	OPTION_NUMBER,	   /* uint32_t between min and max */
	OPTION_PATH,	   /* absolute */
	OPTION_INTERFACES, /* a list */
	OPTION_PREFIXES,   /* a list */
	OPTION_LOG_LEVEL,
	OPTION_BOOL, /* uint32_t; true and false in the file */
};

struct option_def {
	const char *name; /* as a key of the file; on the command line `-` stands for `_` */
	enum option_kind kind;
	size_t offset;
	const char *const *words;
	uint32_t min, max;
	bool file_only;
};

static const char *const policies[] = { "repair", "unify", NULL };
static const char *const scopes[] = { "destination", "tuple", NULL };
static const char *const datapaths[] = { "auto", "bpf", "queue", NULL };
static const char *const decides[] = { "queue", "kernel", NULL };
static const char *const rules[] = { "managed", "none", NULL };
static const char *const gaps[] = { "bypass", "hold", NULL };

#define AT(field) .offset = offsetof(struct config, field)
#define CONFIG_FILE_MAX (1u << 20) /* bytes */

static const struct option_def options[] = {
	{ "interfaces", OPTION_INTERFACES, AT(interfaces), .file_only = true },
	{ "external", OPTION_PREFIXES, AT(external), .file_only = true },
	{ "policy", OPTION_CHOICE, AT(policy), .words = policies },
	{ "scope", OPTION_CHOICE, AT(scope), .words = scopes },
	{ "datapath", OPTION_CHOICE, AT(datapath), .words = datapaths },
	{ "decide", OPTION_CHOICE, AT(decide), .words = decides },
	{ "state_dir", OPTION_PATH, AT(state_dir) },
	{ "runtime_dir", OPTION_PATH, AT(runtime_dir) },
	{ "pin_dir", OPTION_PATH, AT(pin_dir) },
	{ "rules", OPTION_CHOICE, AT(rules), .words = rules },
	{ "queue_num", OPTION_NUMBER, AT(queue_num), .min = 0, .max = 65535 },
	{ "queues", OPTION_NUMBER, AT(queues), .min = 0, .max = CONFIG_QUEUES_MAX },
	{ "restart_gap", OPTION_CHOICE, AT(restart_gap), .words = gaps },
	{ "hold", OPTION_NUMBER, AT(hold), .min = 1, .max = 86400 },
	{ "records", OPTION_NUMBER, AT(records), .min = 1, .max = 1u << 26, .file_only = true },
	{ "mark_mask", OPTION_NUMBER, AT(mark_mask), .min = 1, .max = UINT32_MAX,
	  .file_only = true },
	{ "conntrack_events", OPTION_BOOL, AT(conntrack_events), .file_only = true },
	{ "log_level", OPTION_LOG_LEVEL, AT(log_level) },
};

struct problems {
	config_report_fn *report;
	void *user;
	unsigned int n;
};

static void problem(struct problems *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void problem(struct problems *p, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	p->report(p->user, line);
	p->n++;
}

void config_defaults(struct config *c)
{
	*c = (struct config){
		.state_dir = "/var/lib/tsnatd",
		.runtime_dir = "/run/tsnatd",
		.pin_dir = "/sys/fs/bpf/tsnatd",
		.queue_num = 5150,
		.queues = 0,
		.hold = 300,
		.records = 1u << 20,
		.mark_mask = 0x20000,
		.conntrack_events = 1,
		.log_level = LOG_INFO,
	};
}

/* ---- values: each setter returns NULL, or why the value is refused ---- */

static const char *set_choice(const struct option_def *o, uint32_t *to, const char *word)
{
	static _Thread_local char why[128];
	int n;

	for (uint32_t i = 0; o->words[i]; i++) {
		if (strcmp(o->words[i], word) == 0) {
			*to = i;
			return NULL;
		}
	}
	n = snprintf(why, sizeof(why), "must be one of:");
	for (uint32_t i = 0; o->words[i]; i++)
		n += snprintf(why + n, sizeof(why) - (size_t)n, " %s", o->words[i]);
	return why;
}

static const char *set_number(const struct option_def *o, uint32_t *to, long long n)
{
	static _Thread_local char why[96];

	if (n >= o->min && n <= o->max) {
		*to = (uint32_t)n;
		return NULL;
	}
	snprintf(why, sizeof(why), "must be a number from %u to %u", o->min, o->max);
	return why;
}

static const char *set_path(char *to, const char *path)
{
	if (path[0] != '/')
		return "must be an absolute path";
	if (strlen(path) >= CONFIG_PATH_MAX)
		return "is longer than 95 bytes";
	memset(to, 0, CONFIG_PATH_MAX);
	strcpy(to, path);
	return NULL;
}

static const char *add_interface(struct config *c, const char *name)
{
	if (!name[0] || strlen(name) >= IFNAMSIZ || strpbrk(name, "/ \t\n"))
		return "is not an interface name (1 to 15 characters)";
	for (size_t i = 0; i < c->n_interfaces; i++)
		if (!strcmp(c->interfaces[i], name))
			return "is named twice";
	if (c->n_interfaces == CONFIG_INTERFACES_MAX)
		return "are more than 64 interfaces";
	strcpy(c->interfaces[c->n_interfaces++], name);
	return NULL;
}

static const char *add_prefix(struct config *c, const char *text)
{
	struct config_prefix p = { .len = 128 };
	char addr[INET6_ADDRSTRLEN];
	size_t n = strcspn(text, "/");
	unsigned char four[4];
	unsigned int max, bits;
	char end;

	if (n >= sizeof(addr))
		return "is not an address or prefix";
	memcpy(addr, text, n);
	addr[n] = '\0';
	if (inet_pton(AF_INET, addr, four) == 1) {
		wire_map4(p.addr, four);
		max = 32;
	} else if (inet_pton(AF_INET6, addr, p.addr) == 1) {
		max = 128;
	} else {
		return "is not an address or prefix";
	}
	bits = max;
	if (text[n] && (sscanf(text + n, "/%u%c", &bits, &end) != 1 || bits > max))
		return "has an impossible prefix length";
	p.len = (uint8_t)(128 - max + bits);
	if (c->n_external == CONFIG_EXTERNAL_MAX)
		return "are more than 64 prefixes";
	c->external[c->n_external++] = p;
	return NULL;
}

static const char *set_log_level(uint32_t *to, const char *word)
{
	int level = log_level_from_name(word);

	if (level < 0)
		return "must be one of: error warning notice info debug";
	*to = (uint32_t)level;
	return NULL;
}

static const char *set_word(struct config *c, const struct option_def *o, const char *word)
{
	void *to = (char *)c + o->offset;
	char *end;
	long long n;

	switch (o->kind) {
	case OPTION_CHOICE:
		return set_choice(o, to, word);
	case OPTION_NUMBER:
		errno = 0;
		n = strtoll(word, &end, 10);
		return set_number(o, to, errno || *end || end == word ? -1 : n);
	case OPTION_PATH:
		return set_path(to, word);
	case OPTION_INTERFACES:
		return add_interface(c, word);
	case OPTION_PREFIXES:
		return add_prefix(c, word);
	case OPTION_LOG_LEVEL:
		return set_log_level(to, word);
	case OPTION_BOOL:
		break; /* never a word */
	}
	return "cannot be set";
}

/* ---- the file ---- */

static const struct option_def *find_option(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (!strcmp(options[i].name, name))
			return &options[i];
	return NULL;
}

static void read_list(struct config *c, const struct option_def *o, config_setting_t *s,
		      const char *path, struct problems *p)
{
	for (int i = 0; i < config_setting_length(s); i++) {
		config_setting_t *e = config_setting_get_elem(s, (unsigned int)i);
		const char *word = config_setting_get_string(e);
		const char *why = word ? set_word(c, o, word) : "must be a string in quotes";

		if (why)
			problem(p, "%s:%d: %s: %s%s%s", path, config_setting_source_line(e),
				o->name, word ? word : "", word ? " " : "", why);
	}
}

/*
 * libconfig has signed numbers of 32 bits, and for a hexadecimal one of 8 digits that is a bit
 * pattern.
 */
static long long number_of(config_setting_t *s)
{
	long long n = config_setting_get_int64(s);

	if (config_setting_type(s) == CONFIG_TYPE_INT &&
	    config_setting_get_format(s) == CONFIG_FORMAT_HEX)
		return (uint32_t)n;
	return n;
}

static void read_setting(struct config *c, config_setting_t *s, const char *path,
			 struct problems *p)
{
	const struct option_def *o = find_option(config_setting_name(s));
	int line = config_setting_source_line(s), type = config_setting_type(s);
	const char *why = NULL;

	if (!o) {
		problem(p, "%s:%d: %s: there is no such option", path, line,
			config_setting_name(s));
		return;
	}
	if (o->kind == OPTION_INTERFACES || o->kind == OPTION_PREFIXES) {
		if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
			why = "must be a list: [ \"...\", \"...\" ]";
		else
			read_list(c, o, s, path, p);
	} else if (o->kind == OPTION_NUMBER) {
		if (type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64)
			why = "must be a number";
		else
			why = set_number(o, (uint32_t *)((char *)c + o->offset), number_of(s));
	} else if (o->kind == OPTION_BOOL) {
		if (type != CONFIG_TYPE_BOOL)
			why = "must be true or false";
		else
			*(uint32_t *)((char *)c + o->offset) = (uint32_t)config_setting_get_bool(s);
	} else if (type != CONFIG_TYPE_STRING) {
		why = "must be a string in quotes";
	} else {
		why = set_word(c, o, config_setting_get_string(s));
	}
	if (why)
		problem(p, "%s:%d: %s: %s", path, line, o->name, why);
}

struct file_problems {
	struct problems *problems;
	const char *path;
};

static void on_scan(void *user, int line, const char *key, const char *why)
{
	struct file_problems *f = user;

	problem(f->problems, "%s:%d: %s: %s", f->path, line, key, why);
}

/*
 * The file's text, for the caller to free. Returns 0 or -errno; -EFBIG for what cannot be a
 * configuration file.
 */
static int read_file(const char *path, char **ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	size_t n;
	char *text;

	if (!f)
		return -errno;
	text = calloc(1, CONFIG_FILE_MAX + 1);
	if (!text)
		return -ENOMEM;
	n = fread(text, 1, CONFIG_FILE_MAX + 1, f);
	if (ferror(f) || n > CONFIG_FILE_MAX || memchr(text, 0, n)) {
		int r = ferror(f) ? -errno : n > CONFIG_FILE_MAX ? -EFBIG : -EINVAL;

		free(text);
		return r;
	}
	*ret = text;
	return 0;
}

int config_parse_file(struct config *c, const char *path, config_report_fn *report, void *user)
{
	struct problems p = { .report = report, .user = user };
	struct config new = *c;
	config_t file;
	char *text = NULL;
	int r = read_file(path, &text);

	if (r < 0)
		return r;
	config_scan(text, on_scan, &(struct file_problems){ .problems = &p, .path = path });
	config_init(&file);
	if (config_read_string(&file, text) != CONFIG_TRUE) {
		problem(&p, "%s:%d: %s", path, config_error_line(&file), config_error_text(&file));
	} else {
		config_setting_t *root = config_root_setting(&file);

		for (int i = 0; i < config_setting_length(root); i++)
			read_setting(&new, config_setting_get_elem(root, (unsigned int)i), path,
				     &p);
	}
	config_destroy(&file);
	free(text);
	if (p.n)
		return -EINVAL;
	*c = new;
	return 0;
}

/* ---- the command line ---- */

enum { ARG_CHECK = 1000, ARG_CLEANUP, ARG_REMOVE_RULES, ARG_VERSION, ARG_HELP, ARG_OPTION = 2000 };
#define N_FIXED_ARGS 7

static void make_long_options(struct option *to, char names[][32])
{
	static const struct option fixed[N_FIXED_ARGS] = {
		{ "config", required_argument, NULL, 'c' },
		{ "interface", required_argument, NULL, 'i' },
		{ "check", no_argument, NULL, ARG_CHECK },
		{ "cleanup", no_argument, NULL, ARG_CLEANUP },
		{ "version", no_argument, NULL, ARG_VERSION },
		{ "help", no_argument, NULL, ARG_HELP },
		{ "remove-rules", no_argument, NULL, ARG_REMOVE_RULES },
	};
	size_t n = N_FIXED_ARGS;

	memcpy(to, fixed, sizeof(fixed));
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (options[i].file_only)
			continue;
		snprintf(names[i], 32, "%s", options[i].name);
		for (char *p = names[i]; *p; p++)
			if (*p == '_')
				*p = '-';
		to[n++] = (struct option){ names[i], required_argument, NULL, ARG_OPTION + (int)i };
	}
	to[n] = (struct option){ 0 };
}

struct arguments {
	const char *file;
	enum config_action action;
	const char *interfaces[CONFIG_INTERFACES_MAX];
	size_t n_interfaces;
	const char *values[ARRAY_SIZE(options)];
};

static void read_arguments(struct arguments *a, int argc, char **argv, struct problems *p)
{
	struct option long_options[N_FIXED_ARGS + ARRAY_SIZE(options) + 1];
	char names[ARRAY_SIZE(options)][32];
	int c;

	make_long_options(long_options, names);
	opterr = 0;
	optind = 1;
	while ((c = getopt_long(argc, argv, ":c:i:h", long_options, NULL)) != -1) {
		if (c >= ARG_OPTION)
			a->values[c - ARG_OPTION] = optarg;
		else if (c == 'c')
			a->file = optarg;
		else if (c == 'i' && a->n_interfaces < CONFIG_INTERFACES_MAX)
			a->interfaces[a->n_interfaces++] = optarg;
		else if (c == 'h' || c == ARG_HELP)
			a->action = CONFIG_HELP;
		else if (c == ARG_VERSION)
			a->action = CONFIG_VERSION;
		else if (c == ARG_CHECK)
			a->action = CONFIG_CHECK;
		else if (c == ARG_CLEANUP)
			a->action = CONFIG_CLEANUP;
		else if (c == ARG_REMOVE_RULES)
			a->action = CONFIG_REMOVE_RULES;
		else
			problem(p, "%s: %s", argv[optind - 1],
				c == ':' ? "needs an argument"
					 : "there is no such option; see --help");
	}
	if (optind < argc)
		problem(p, "%s: unexpected argument; see --help", argv[optind]);
}

static void apply_arguments(struct config *c, const struct arguments *a, struct problems *p)
{
	const char *why;

	if (a->n_interfaces)
		c->n_interfaces = 0; /* named on the command line: those and no others */
	for (size_t i = 0; i < a->n_interfaces; i++) {
		why = add_interface(c, a->interfaces[i]);
		if (why)
			problem(p, "-i: %s %s", a->interfaces[i], why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!a->values[i])
			continue;
		why = set_word(c, &options[i], a->values[i]);
		if (why)
			problem(p, "%s: %s: %s", options[i].name, a->values[i], why);
	}
}

/* What is right on its own but not together. */
static void check_together(const struct config *c, struct problems *p)
{
	const uint32_t kinds =
		c->datapath == CONFIG_DATAPATH_BPF ? 1 : 3; /* SYNs, segments out, segments in */

	const uint32_t queues = c->queues ? c->queues : 1; /* as many as there is room for */

	if (c->queue_num + kinds * queues > 65536)
		problem(p, "queues: %u queues from number %u end beyond 65535", kinds * queues,
			c->queue_num);
	if (c->decide == CONFIG_DECIDE_KERNEL && c->datapath == CONFIG_DATAPATH_QUEUE)
		problem(p, "decide: \"kernel\" needs the bpf datapath");
}

int config_load(struct config *ret, enum config_action *ret_action, int argc, char **argv,
		config_report_fn *report, void *user)
{
	struct problems p = { .report = report, .user = user };
	struct arguments a = { 0 };
	struct config c;
	int r = 0;

	config_defaults(&c);
	read_arguments(&a, argc, argv, &p);
	if (!p.n && (a.action == CONFIG_HELP || a.action == CONFIG_VERSION)) {
		*ret_action = a.action;
		*ret = c;
		return 0;
	}
	r = config_parse_file(&c, a.file ? a.file : CONFIG_DEFAULT_FILE, report, user);
	if (r == -ENOENT && !a.file)
		r = 0;
	else if (r < 0 && r != -EINVAL)
		problem(&p, "%s: %s", a.file ? a.file : CONFIG_DEFAULT_FILE, strerror(-r));
	apply_arguments(&c, &a, &p);
	check_together(&c, &p);
	if (r < 0 || p.n)
		return -EINVAL;
	*ret_action = a.action;
	*ret = c;
	return 0;
}

void config_usage(void)
{
	puts("usage: tsnatd [OPTION]...\n"
	     "NAT for TCP timestamps: every reuse of a translated connection looks monotonic to "
	     "the server.\n\n"
	     "  -c, --config FILE              configuration (default " CONFIG_DEFAULT_FILE
	     ", if it is there)\n"
	     "  -i, --interface IFACE          an outgoing interface; may be repeated (default: "
	     "those of the default routes)\n"
	     "      --policy repair|unify      shift only what would be refused, or give each "
	     "destination one clock\n"
	     "      --scope destination|tuple  what has a clock of its own under \"unify\"\n"
	     "      --datapath auto|bpf|queue  what applies shifts to packets\n"
	     "      --decide queue|kernel      where SYNs are decided first\n"
	     "      --rules managed|none       install nft rules, or leave them to you (see "
	     "conf/tsnatd.nft)\n"
	     "      --queue-num N              the first netfilter queue (default 5150)\n"
	     "      --queues N                 how many queues, two threads each (default 0: one "
	     "for each processor)\n"
	     "      --restart-gap bypass|hold  SYNs during a restart pass undecided, or wait; "
	     "needs systemd\n"
	     "      --hold SECONDS             how long a record outlives its last packet (default "
	     "300)\n"
	     "      --state-dir DIR            (default /var/lib/tsnatd)\n"
	     "      --runtime-dir DIR          (default /run/tsnatd)\n"
	     "      --pin-dir DIR              on a bpffs (default /sys/fs/bpf/tsnatd)\n"
	     "      --log-level LEVEL          error, warning, notice, info, debug\n"
	     "      --check                    validate the configuration and exit\n"
	     "      --cleanup                  remove this instance's rules, filters and pins, and "
	     "exit\n"
	     "      --remove-rules             remove this instance's rules, as a stop does, and "
	     "exit\n"
	     "      --version, --help\n\n"
	     "Exit codes: 0 stopped, 1 failure, 2 usage or configuration,\n"
	     "3 what it needs is missing or taken.");
}

const char *config_policy_name(uint32_t policy)
{
	return policies[policy];
}

const char *config_scope_name(uint32_t scope)
{
	return scopes[scope];
}

const char *config_decide_name(uint32_t decide)
{
	return decides[decide];
}
