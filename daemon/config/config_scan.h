/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_scan.h - finds mistakes in a configuration file that libconfig does not report.
 *
 * libconfig silently cuts a number without suffix L to 32 bits, and silently takes the rest of the
 * file for the comment where a comment has no end. It stops reading at the first duplicate setting,
 * so that it would not report the mistakes behind it.
 */
#pragma once

typedef void config_scan_fn(void *user, int line, const char *key, const char *why);

/*
 * Call FOUND for each duplicate top-level setting in TEXT, for each number that does not fit 32
 * bits, and for a comment without end. KEY is the setting's name, valid during the call. Duplicates
 * are overwritten with spaces, so that libconfig reads the rest.
 */
void config_scan(char *text, config_scan_fn *found, void *user);
