// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "core/counters.h"
#include "ctl_statistics.h"
#include "varlink/gateway_names.h"
#include "base/util.h"

#define COUNTER(number, upper, lower, text) { #lower, text, false },
#define GAUGE(upper, lower, text) { #lower, text, true },
static const struct statistic statistics[] = { COUNTERS(COUNTER) GATEWAY_GAUGES(GAUGE, GAUGE) };

const struct statistic *statistic_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(statistics); i++)
		if (strcmp(statistics[i].name, name) == 0)
			return &statistics[i];
	return NULL;
}
