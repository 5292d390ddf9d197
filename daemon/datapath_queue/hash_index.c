// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "hash_index.h"

#define KEY_MAX 48

uint32_t hash_index_bucket(const struct hash_index *t, const void *key)
{
	__u64 m[KEY_MAX / 8] = { 0 };

	assert(t->key_size <= KEY_MAX);
	memcpy(m, key, t->key_size);
	return (uint32_t)siphash(&t->hash_key, m, (uint32_t)(t->key_size + 7) / 8) &
	       (t->n_buckets - 1);
}

uint32_t hash_index_find(const struct hash_index *t, uint32_t bucket, const void *key)
{
	uint32_t i = t->heads[bucket];

	while (i != HASH_NONE && memcmp(hash_index_slot(t, i)->key, key, t->key_size) != 0)
		i = t->next[i];
	return i;
}

static void link_slot(struct hash_index *t, uint32_t bucket, uint32_t i)
{
	t->next[i] = t->heads[bucket];
	t->heads[bucket] = i;
	__atomic_store_n(&t->bucket_of[i], bucket, __ATOMIC_RELAXED);
}

static int index_slots(struct hash_index *t)
{
	for (uint32_t i = 0; i < *t->used_max; i++) {
		struct hash_slot *s = hash_index_slot(t, i);
		uint32_t bucket;

		if (s->used != HASH_USED && s->used != HASH_FREE)
			return -EBADMSG;
		if (s->used == HASH_FREE) {
			t->next[i] = t->free_head;
			t->free_head = i;
			continue;
		}
		bucket = hash_index_bucket(t, s->key);
		if (hash_index_find(t, bucket, s->key) != HASH_NONE)
			return -EBADMSG;
		link_slot(t, bucket, i);
	}
	return 0;
}

int hash_index_init(struct hash_index *t)
{
	int r;

	if (*t->used_max > t->n_slots)
		return -EBADMSG;
	t->n_backed = *t->used_max;
	t->n_buckets = 1;
	while (t->n_buckets < t->n_slots)
		t->n_buckets *= 2;
	t->heads = malloc(t->n_buckets * sizeof(*t->heads));
	t->next = malloc(t->n_slots * sizeof(*t->next));
	t->bucket_of = malloc(t->n_slots * sizeof(*t->bucket_of));
	t->free_head = HASH_NONE;
	r = t->heads && t->next && t->bucket_of ? mutex_init_inheriting(&t->lock) : -ENOMEM;
	if (r >= 0) {
		memset(t->heads, 0xff, t->n_buckets * sizeof(*t->heads));
		memset(t->bucket_of, 0xff, t->n_slots * sizeof(*t->bucket_of));
		r = index_slots(t);
		if (r < 0)
			pthread_mutex_destroy(&t->lock);
	}
	if (r < 0) {
		free(t->heads);
		free(t->next);
		free(t->bucket_of);
		t->heads = t->next = t->bucket_of = NULL;
	}
	return r;
}

void hash_index_destroy(struct hash_index *t)
{
	if (!t->heads)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t->heads);
	free(t->next);
	free(t->bucket_of);
	t->heads = t->next = t->bucket_of = NULL;
}

uint32_t hash_index_reserve(struct hash_index *t, const void *key)
{
	uint32_t i;

	pthread_mutex_lock(&t->lock);
	i = t->free_head;
	if (i != HASH_NONE)
		t->free_head = t->next[i];
	else if (*t->used_max < t->n_slots && (*t->used_max < t->n_backed || t->back(t, t->user)))
		i = __atomic_fetch_add(t->used_max, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&t->lock);
	if (i != HASH_NONE)
		memcpy(hash_index_slot(t, i)->key, key, t->key_size);
	return i;
}

void hash_index_publish(struct hash_index *t, uint32_t bucket, uint32_t i)
{
	__atomic_store_n(&hash_index_slot(t, i)->used, HASH_USED, __ATOMIC_RELEASE);
	link_slot(t, bucket, i);
}

void hash_index_delete(struct hash_index *t, uint32_t bucket, uint32_t i)
{
	uint32_t *at = &t->heads[bucket];

	while (*at != i)
		at = &t->next[*at];
	*at = t->next[i];
	__atomic_store_n(&t->bucket_of[i], HASH_NONE, __ATOMIC_RELAXED);
	__atomic_store_n(&hash_index_slot(t, i)->used, HASH_FREE, __ATOMIC_RELEASE);
	pthread_mutex_lock(&t->lock);
	t->next[i] = t->free_head;
	t->free_head = i;
	pthread_mutex_unlock(&t->lock);
}
