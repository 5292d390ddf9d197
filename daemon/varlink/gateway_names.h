/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway_names.h - names and limits that the daemon and tsnatctl share.
 */
#pragma once

#define GATEWAY_INTERFACE "io.tsnatd.Gateway"
#define GATEWAY_SOCKET "/run/tsnatd/" GATEWAY_INTERFACE

/* The build defines it. */
#ifndef VERSION
#define VERSION "unknown"
#endif

/*
 * The members of GetStatistics besides the counters. LAST stands for X at the last one, for texts
 * with separators.
 */
#define GATEWAY_GAUGES(X, LAST)                                                              \
	X(CONNECTIONS_SHIFTED, connections_shifted, "shifted connections that are open now") \
	LAST(RECORDS, records, "tuples that are remembered now")

/* Seconds between the answers of Monitor. */
#define GATEWAY_INTERVAL_MIN_S 1
#define GATEWAY_INTERVAL_MAX_S 3600

/* Rows of one listing. If there are more, its last answer has "truncated". */
#define GATEWAY_CONNECTIONS_MAX 131072
#define GATEWAY_DESTINATIONS_MAX 65536
