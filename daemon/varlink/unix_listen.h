/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unix_listen.h - a listening Unix socket in the file system.
 */
#pragma once

#include <sys/types.h>

/*
 * Listen on PATH, with permissions MODE. A socket that an earlier run left behind is replaced.
 *
 * Returns a non-blocking descriptor, owned by the caller, or -errno: -EADDRINUSE when another
 * server answers at PATH, -EEXIST when PATH is no socket.
 */
int unix_listen(const char *path, mode_t mode);
