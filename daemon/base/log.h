/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log.h - lines for the administrator, on standard error; with syslog levels where the journal
 * reads them.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

/* Show messages up to LEVEL (LOG_ERR ... LOG_DEBUG). */
void log_open(int level);
void log_set_level(int level);
int log_level_from_name(const char *name); /* -EINVAL when there is no such level */

void log_msg(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_vmsg(int level, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

#define log_err(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

/*
 * One per place that traffic can make talk: lets a few lines through each interval, then says how
 * many it held back.
 */
struct log_limit {
	uint64_t since_ms;
	unsigned int said, held;
};
#define LOG_LIMIT_LINES 5
#define LOG_LIMIT_MS 10000

bool log_limit_ok(struct log_limit *l, uint64_t now_ms);
