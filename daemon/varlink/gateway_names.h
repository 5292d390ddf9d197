/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway_names.h - what the daemon and tsnatctl must spell alike.
 */
#pragma once

#define GATEWAY_INTERFACE "io.tsnatd.Gateway"
#define GATEWAY_SOCKET "/run/tsnatd/" GATEWAY_INTERFACE

/* Given by the build. */
#ifndef VERSION
#define VERSION "unknown"
#endif

/*
 * What GetStatistics returns besides the counters. LAST is X for the last one, for texts that
 * separate.
 */
#define GATEWAY_GAUGES(X, LAST)                                                          \
	X(CONNECTIONS_SHIFTED, connections_shifted, "shifted connections that live now") \
	LAST(RECORDS, records, "tuples that are remembered now")

/* Seconds between the answers of Monitor. */
#define GATEWAY_INTERVAL_MIN_S 1
#define GATEWAY_INTERVAL_MAX_S 3600

/* What one listing collects at most; it says so when there was more. */
#define GATEWAY_CONNECTIONS_MAX 131072
#define GATEWAY_DESTINATIONS_MAX 65536
