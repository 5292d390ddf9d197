// SPDX-License-Identifier: GPL-2.0-or-later
#include "mutex.h"

int mutex_init_inheriting(pthread_mutex_t *m)
{
	pthread_mutexattr_t attr;
	int r = pthread_mutexattr_init(&attr);

	if (r)
		return -r;
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	r = pthread_mutex_init(m, &attr);
	pthread_mutexattr_destroy(&attr);
	return -r;
}
