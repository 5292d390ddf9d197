// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "saver.h"
#include "state.h"
#include "base/util.h"

struct saver {
	const char *dir;
	const struct datapath_ops *ops;
	struct datapath *dp;
	struct tsclock clock;

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool kicked, stopping; /* under the lock */
	int error;	       /* the thread's own: the last error that was logged */
};

static void save(struct saver *s)
{
	int r = state_save(s->dir, s->ops, s->dp, &s->clock, boot_ms(), SAVER_INTERVAL_MS);

	if (r < 0 && r != s->error)
		log_warn("%s/state cannot be written: %s; after a reboot, records will be missing",
			 s->dir, strerror(-r));
	else if (r == 0 && s->error)
		log_notice("%s/state is written again", s->dir);
	s->error = r;
}

/* Wait for a kick, the stop, or the interval. Returns whether it is the stop. */
static bool wait_for_work(struct saver *s)
{
	struct timespec until;
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += SAVER_INTERVAL_MS / 1000;
	pthread_mutex_lock(&s->lock);
	while (!s->kicked && !s->stopping &&
	       pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
		;
	s->kicked = false;
	stop = s->stopping;
	pthread_mutex_unlock(&s->lock);
	return stop;
}

static void *saver_main(void *arg)
{
	struct saver *s = arg;

	while (!wait_for_work(s))
		save(s);
	save(s);
	return NULL;
}

int saver_start(struct saver **ret, const char *dir, const struct datapath_ops *ops,
		struct datapath *dp, const struct tsclock *clock)
{
	struct saver *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	int r;

	if (!s)
		return -ENOMEM;
	*s = (struct saver){ .dir = dir, .ops = ops, .dp = dp, .clock = *clock };
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&s->thread, NULL, saver_main, s);
	if (r != 0) {
		free(s);
		return -r;
	}
	*ret = s;
	return 0;
}

static void wake(struct saver *s, bool stop)
{
	pthread_mutex_lock(&s->lock);
	s->kicked = true;
	s->stopping = s->stopping || stop;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

void saver_kick(struct saver *s)
{
	if (s)
		wake(s, false);
}

void saver_stop(struct saver *s)
{
	if (!s)
		return;
	wake(s, true);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
