// SPDX-License-Identifier: GPL-2.0-or-later
/* queue_worker.c - makes, starts, keeps over a restart, and ends a queue and its threads. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kept_queues.h"
#include "base/log.h"
#include "queue_reader.h"
#include "base/mutex.h"
#include "base/util.h"

static struct queue_options options_of(const struct queue_worker_config *cfg)
{
	return (struct queue_options){
		.copy_range = cfg->rewrites ? QUEUE_WHOLE : QUEUE_HEADERS,
		.fail_open = cfg->kind == QUEUE_SYNS,
		.merged = cfg->kind != QUEUE_SYNS,
	};
}

static int take_or_open(struct queue_worker *w, const struct queue_options *opt)
{
	if (w->cfg.kept)
		w->nl = kept_queues_take(w->cfg.kept, w->cfg.num, opt->copy_range, &w->has_mapping);
	return w->nl ? 0 : queue_open(&w->nl, w->cfg.num, opt, &w->has_mapping);
}

int queue_worker_new(struct queue_worker **ret, const struct queue_worker_config *cfg)
{
	const struct queue_options opt = options_of(cfg);
	struct queue_worker *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->cfg = *cfg;
	/* A multiple of 8, so that all messages of a batch are aligned. */
	w->message_size = (QUEUE_ATTRIBUTES + opt.copy_range + 7u) & ~(size_t)7;
	pthread_mutex_init(&w->ids.lock, NULL);
	atomic_init(&w->realtime, cfg->kind == QUEUE_SYNS);
	mutex_init_inheriting(&w->knows_lock);
	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->stop_fd < 0 ? -errno : take_or_open(w, &opt);
	if (r < 0) {
		close_fd(&w->stop_fd);
		pthread_mutex_destroy(&w->knows_lock);
		free(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct guardian_queue queue_worker_queue(const struct queue_worker *w)
{
	return (struct guardian_queue){ .nl = w->nl, .num = w->cfg.num };
}

int queue_worker_start(struct queue_worker *w, atomic_uint_fast64_t *beat_ms)
{
	const unsigned int readers = w->cfg.kind == QUEUE_SYNS ? QUEUE_READERS_MAX : 1;

	w->beat_ms = beat_ms;
	while (w->n_readers < readers) {
		struct queue_reader *rd = NULL;
		int r = queue_reader_new(&rd, w);

		if (r < 0)
			return r;
		r = pthread_create(&rd->thread, NULL, queue_reader_main, rd);
		if (r != 0) {
			queue_reader_free(rd);
			return -r;
		}
		w->readers[w->n_readers++] = rd;
	}
	return 0;
}

int queue_worker_keep(struct queue_worker *w, bool keep)
{
	const struct queue_options opt = options_of(&w->cfg);

	if (w->cfg.kind != QUEUE_SYNS)
		return 0;
	if (keep)
		return kept_queues_put(w->nl, w->cfg.num, opt.copy_range, w->has_mapping);
	kept_queues_drop(w->cfg.num, opt.copy_range, w->has_mapping);
	return 0;
}

void queue_worker_stop(struct queue_worker *w, bool drain)
{
	const uint64_t one = 1;

	if (!w)
		return;
	atomic_store(&w->drain, drain);
	/* Nobody reads the eventfd, so it stays readable for all threads. */
	if (write(w->stop_fd, &one, sizeof(one)) < 0)
		log_err("queue %u: its threads cannot be stopped: %s", w->cfg.num, strerror(errno));
	for (unsigned int i = 0; i < w->n_readers; i++) {
		pthread_join(w->readers[i]->thread, NULL);
		queue_reader_free(w->readers[i]);
	}
	/* The start failed after this worker took a kept queue: let its packets pass. */
	if (!w->n_readers && w->cfg.kind == QUEUE_SYNS)
		queue_accept_waiting(w->nl, w->cfg.num, QUEUE_MAXLEN);
	mnl_socket_close(w->nl);
	close(w->stop_fd);
	pthread_mutex_destroy(&w->knows_lock);
	free(w);
}

void queue_worker_counters(struct queue_worker *w, uint64_t *counters)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		counters[i] += atomic_load_explicit(&w->counters[i], memory_order_relaxed);
	counters[w->cfg.kind == QUEUE_SYNS ? COUNTER_QUEUE_DROPPED : COUNTER_SEGMENTS_DROPPED] +=
		atomic_load(&w->ids.lost);
}

bool queue_worker_is_realtime(struct queue_worker *w)
{
	return w->realtime || w->cfg.kind != QUEUE_SYNS;
}

bool queue_worker_has_mapping(struct queue_worker *w)
{
	return w->has_mapping;
}
