// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
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

/* One write, so that lines of several threads do not mix. A failure has nowhere to be reported. */
static void write_line(int level, const char *text, size_t len)
{
	char head[8];
	struct iovec iov[] = {
		{ .iov_base = head },
		{ .iov_base = (char *)text, .iov_len = len },
		{ .iov_base = (char *)"\n", .iov_len = 1 },
	};

	if (to_journal)
		iov[0].iov_len = (size_t)snprintf(head, sizeof(head), "<%d>", level);
	if (writev(STDERR_FILENO, iov, ARRAY_SIZE(iov)) < 0)
		return;
}

/* Messages of libraries have several lines; the journal wants a level on each. */
static void write_lines(int level, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (len)
			write_line(level, text, len);
		text += len;
		text += strspn(text, "\n");
	}
}

void log_vmsg(int level, const char *fmt, va_list ap)
{
	char line[1024], *text = line;
	va_list again;
	int n;

	if (level > max_level)
		return;
	va_copy(again, ap);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	/* without memory the text is cut to the size of line[] */
	if (n >= (int)sizeof(line) && vasprintf(&text, fmt, again) < 0)
		text = line;
	va_end(again);
	if (n < 0)
		return;
	write_lines(level, text);
	if (text != line)
		free(text);
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
