/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unix_listen.h - a listening socket in the file system.
 */
#pragma once

#include <sys/types.h>

/*
 * Listen on PATH. A socket that an earlier run left behind is replaced; one that somebody answers
 * on is not: -EADDRINUSE. Anything else at PATH: -EEXIST. Returns a descriptor that does not block,
 * or -errno.
 */
int unix_listen(const char *path, mode_t mode);
