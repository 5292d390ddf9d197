/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl_statistics.h - texts and types of the numbers that GetStatistics returns. */
#pragma once

#include <stdbool.h>

struct statistic {
	const char *name, *text;
	bool is_gauge;
};

/* NULL: the daemon has another version, and this tsnatctl does not know the name. */
const struct statistic *statistic_find(const char *name);
