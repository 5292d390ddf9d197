// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "util.h"

static const struct {
	const char *name;
	int level;
} level_names[] = {
	{ "error", LOG_ERR }, { "warning", LOG_WARNING }, { "notice", LOG_NOTICE },
	{ "info", LOG_INFO }, { "debug", LOG_DEBUG },
};

static int max_level = LOG_INFO;
static bool to_journal;

void log_open(int level)
{
	max_level = level;
	to_journal = getenv("JOURNAL_STREAM") != NULL;
}

void log_set_level(int level)
{
	max_level = level;
}

int log_level_from_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
		if (!strcmp(level_names[i].name, name))
			return level_names[i].level;
	return -EINVAL;
}

const char *log_level_name(int level)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
		if (level_names[i].level == level)
			return level_names[i].name;
	return "info";
}

void log_vmsg(int level, const char *fmt, va_list ap)
{
	char line[1024];
	int n = 0;

	if (level > max_level)
		return;
	if (to_journal)
		n = snprintf(line, sizeof(line), "<%d>", level);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	while (n > 0 && line[n - 1] == '\n')
		n--;
	line[n++] = '\n';
	/* one write, so that the lines of several threads stay whole; nobody to tell when it fails */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

void log_msg(int level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_vmsg(level, fmt, ap);
	va_end(ap);
}

bool log_limit_ok(struct log_limit *l, uint64_t now_ms)
{
	if (now_ms - l->since_ms >= LOG_LIMIT_MS) {
		if (l->held)
			log_msg(LOG_WARNING, "(%u more lines like this were held back)", l->held);
		*l = (struct log_limit){ .since_ms = now_ms };
	}
	if (l->said >= LOG_LIMIT_LINES) {
		l->held++;
		return false;
	}
	l->said++;
	return true;
}
