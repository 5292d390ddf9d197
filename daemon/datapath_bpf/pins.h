/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pins.h - the directory on a bpffs in which the maps survive the daemon.
 */
#pragma once

#include <stddef.h>

/*
 * Make the directory PATH, which must lie on a bpffs; where none is mounted, one is: on /sys/fs/bpf
 * for paths below it, else on PATH itself.
 *
 * Returns 0 or -errno; -EOPNOTSUPP when there is no bpffs and none can be mounted.
 */
int pins_prepare(const char *path);

/* Remove the pinned objects in PATH, and PATH. Missing ones are no error. Returns 0 or -errno. */
int pins_remove(const char *path);

/* Where the map named MAP is pinned below DIR. The layout of records is part of the name. */
void pins_path(char *buf, size_t size, const char *dir, const char *map);
