/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * saver.h - the thread that writes the state file, so that a slow disk delays nothing else.
 */
#pragma once

#include <stdint.h>

#include "core/datapath.h"

#define SAVER_INTERVAL_MS 60000

struct saver;

/*
 * Start a thread that saves every SAVER_INTERVAL_MS. DIR and DP must outlive it. CLOCK is copied.
 * Returns 0 or -errno.
 */
int saver_start(struct saver **ret, const char *dir, const struct datapath_ops *ops,
		struct datapath *dp, const struct tsclock *clock);

/* Save now, without waiting until it is done. NULL is allowed. */
void saver_kick(struct saver *s);

/* Save once more and end the thread. NULL is allowed. */
void saver_stop(struct saver *s);
