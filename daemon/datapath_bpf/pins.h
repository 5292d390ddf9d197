/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pins.h - the directory on a bpffs where the maps outlive the daemon. */
#pragma once

#include <stddef.h>

/*
 * Make the directory PATH, which must be on a bpffs. Where no bpffs is mounted, mount one: on
 * /sys/fs/bpf for paths below it, else on PATH itself.
 *
 * Returns 0 or -errno; -EOPNOTSUPP when there is no bpffs and none can be mounted.
 */
int pins_prepare(const char *path);

/* Remove the pinned objects in PATH, and PATH. Missing ones are no error. Returns 0 or -errno. */
int pins_remove(const char *path);

/*
 * Write the path of the pin of the map MAP below DIR. The version of the record's layout is part of
 * the name.
 */
void pins_path(char *buf, size_t size, const char *dir, const char *map);
