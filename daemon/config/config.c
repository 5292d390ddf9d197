// SPDX-License-Identifier: GPL-2.0-or-later
/* config.c - the options: names, defaults and allowed values. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "config_option.h"
#include "core/decide.h"
#include "core/tsclock.h"
#include "core/wire.h"
#include "base/log.h"
#include "base/util.h"

static const char *const policies[] = { "repair", "unify" };
static_assert(ARRAY_SIZE(policies) == POLICY_COUNT, "a word for each policy");

static const char *const scopes[] = { "destination", "tuple" };
static_assert(ARRAY_SIZE(scopes) == SCOPE_COUNT, "a word for each scope");

static const char *const datapaths[] = { "auto", "bpf", "queue" };
static_assert(ARRAY_SIZE(datapaths) == CONFIG_DATAPATH_COUNT, "a word for each datapath");

static const char *const decides[] = { "queue", "kernel" };
static_assert(ARRAY_SIZE(decides) == CONFIG_DECIDE_COUNT, "a word for each place of decision");

static const char *const rules[] = { "managed", "none" };
static_assert(ARRAY_SIZE(rules) == CONFIG_RULES_COUNT, "a word for each kind of rules");

static const char *const gaps[] = { "bypass", "wait" };
static_assert(ARRAY_SIZE(gaps) == CONFIG_GAP_COUNT, "a word for each kind of gap");
/* "hold" became "wait": everywhere else, hold is the life of a record. */
static const char *const old_gaps[] = { NULL, "hold" };
static_assert(ARRAY_SIZE(old_gaps) == CONFIG_GAP_COUNT, "an old word or NULL for each kind of gap");

#define AT(field) .offset = offsetof(struct config, field)
#define WORDS(list) .words = list, .n_words = ARRAY_SIZE(list)

const struct config_option config_options[] = {
	{ "interfaces", OPTION_INTERFACES, AT(interfaces), .file_only = true },
	{ "external", OPTION_PREFIXES, AT(external), .file_only = true },
	{ "policy", OPTION_CHOICE, AT(policy), WORDS(policies) },
	{ "scope", OPTION_CHOICE, AT(scope), WORDS(scopes) },
	{ "datapath", OPTION_CHOICE, AT(datapath), WORDS(datapaths) },
	{ "decide", OPTION_CHOICE, AT(decide), WORDS(decides) },
	{ "state_dir", OPTION_PATH, AT(state_dir) },
	{ "runtime_dir", OPTION_PATH, AT(runtime_dir) },
	{ "pin_dir", OPTION_PATH, AT(pin_dir) },
	{ "rules", OPTION_CHOICE, AT(rules), WORDS(rules) },
	{ "queue_num", OPTION_NUMBER, AT(queue_num), .min = 0, .max = 65535 },
	{ "queues", OPTION_NUMBER, AT(queues), .min = 0, .max = CONFIG_QUEUES_MAX },
	{ "restart_gap", OPTION_CHOICE, AT(restart_gap), WORDS(gaps), .old_words = old_gaps },
	{ "hold", OPTION_NUMBER, AT(hold), .min = 1, .max = 86400 },
	{ "records", OPTION_NUMBER, AT(records), .min = 1, .max = 1u << 26, .file_only = true },
	{ "mark_mask", OPTION_NUMBER, AT(mark_mask), .min = 1, .max = UINT32_MAX,
	  .file_only = true },
	{ "conntrack_events", OPTION_BOOL, AT(conntrack_events), .file_only = true },
	{ "log_level", OPTION_LOG_LEVEL, AT(log_level) },
};
static_assert(ARRAY_SIZE(config_options) == CONFIG_OPTIONS, "CONFIG_OPTIONS counts them");

static void report_line(const struct config_problems *p, int level, const char *fmt, va_list ap)
{
	char line[512];

	vsnprintf(line, sizeof(line), fmt, ap);
	p->report(p->user, level, line);
}

void config_problem(struct config_problems *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report_line(p, LOG_ERR, fmt, ap);
	va_end(ap);
	p->n++;
}

void config_notice(const struct config_problems *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report_line(p, LOG_NOTICE, fmt, ap);
	va_end(ap);
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

/* Each setter returns NULL, or the reason why it refuses the value. */

static bool is_old_word(const struct config_option *o, size_t i, const char *word)
{
	return o->old_words && o->old_words[i] && strcmp(o->old_words[i], word) == 0;
}

const char *config_new_word(const struct config_option *o, const char *word)
{
	if (o->kind != OPTION_CHOICE)
		return NULL;
	for (size_t i = 0; i < o->n_words; i++)
		if (is_old_word(o, i, word))
			return o->words[i];
	return NULL;
}

static const char *set_choice(const struct config_option *o, uint32_t *to, const char *word)
{
	static _Thread_local char why[128];
	int n;

	for (uint32_t i = 0; i < o->n_words; i++) {
		if (strcmp(o->words[i], word) == 0 || is_old_word(o, i, word)) {
			*to = i;
			return NULL;
		}
	}
	n = snprintf(why, sizeof(why), "must be one of:");
	for (uint32_t i = 0; i < o->n_words; i++)
		n += snprintf(why + n, sizeof(why) - (size_t)n, " %s", o->words[i]);
	return why;
}

const char *config_set_number(const struct config_option *o, uint32_t *to, long long n)
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
		return "is one interface too many: there can be 64";
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
		return "is one prefix too many: there can be 64";
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

const char *config_set_word(struct config *c, const struct config_option *o, const char *word)
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
		return config_set_number(o, to, errno || *end || end == word ? -1 : n);
	case OPTION_PATH:
		return set_path(to, word);
	case OPTION_INTERFACES:
		return add_interface(c, word);
	case OPTION_PREFIXES:
		return add_prefix(c, word);
	case OPTION_LOG_LEVEL:
		return set_log_level(to, word);
	case OPTION_BOOL:
		/* true and false are not words in libconfig */
		break;
	}
	return "cannot be set";
}

const struct config_option *config_find_option(const char *name)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++)
		if (!strcmp(config_options[i].name, name))
			return &config_options[i];
	return NULL;
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
