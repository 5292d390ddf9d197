/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_statistics.h - what tsnatctl knows about the numbers that GetStatistics returns.
 */
#pragma once

#include <stdbool.h>

struct statistic {
	const char *name, *text;
	bool is_gauge;
};

/* NULL: a daemon of another version counts something that this tsnatctl does not know. */
const struct statistic *statistic_find(const char *name);
