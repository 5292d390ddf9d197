/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mutex.h - locks that threads of different priority share. */
#pragma once

#include <pthread.h>

/*
 * Make a mutex whose holder runs at the priority of whoever waits for it: the packets' threads have
 * real-time priority, others do not. Returns 0 or -errno; pthread_mutex_destroy() ends it.
 */
int mutex_init_inheriting(pthread_mutex_t *m);
