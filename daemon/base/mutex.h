/* SPDX-License-Identifier: GPL-2.0-or-later */
/* mutex.h - locks shared by threads of different priority. */
#pragma once

#include <pthread.h>

/*
 * Make a mutex with priority inheritance: a thread with real-time priority must not wait while
 * other threads preempt the one that holds the lock. Returns 0 or -errno; the caller ends it with
 * pthread_mutex_destroy().
 */
int mutex_init_inheriting(pthread_mutex_t *m);
