/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log.h - log lines for the administrator, on standard error. Where the journal reads standard
 * error, each line begins with its syslog level.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

/* Show messages up to LEVEL (LOG_ERR ... LOG_DEBUG). */
void log_open(int level);
void log_set_level(int level);
/* Returns LOG_ERR ... LOG_DEBUG; -EINVAL: there is no level of that name. */
int log_level_from_name(const char *name);

void log_msg(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_vmsg(int level, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

#define log_err(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

/*
 * A limit for messages that traffic can cause; each place in the code has its own. It allows
 * LOG_LIMIT_LINES lines in LOG_LIMIT_MS, counts the others, and reports their number with the first
 * line of a later interval.
 */
struct log_limit {
	uint64_t since_ms;
	unsigned int said, held;
};
#define LOG_LIMIT_LINES 5
#define LOG_LIMIT_MS 10000

/* Whether the caller may log a line now. */
bool log_limit_ok(struct log_limit *l, uint64_t now_ms);
