/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_scan.h - what libconfig does not tell of a configuration file.
 *
 * It keeps the low 32 bits of a number without suffix L, and takes a comment without end for the
 * rest of the file, and says nothing; and it gives up at the first setting that is there twice.
 */
#pragma once

typedef void config_scan_fn(void *user, int line, const char *key, const char *why);

/*
 * Call FOUND for each top-level setting of TEXT that is there for the second time, which is then
 * overwritten with spaces so that libconfig can read the rest, for each number that does not fit 32
 * bits, and for a comment without end. KEY is the setting's name, valid during the call.
 */
void config_scan(char *text, config_scan_fn *found, void *user);
