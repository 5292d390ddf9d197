/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hash_index.h - a hash index over an array of slots of fixed size.
 *
 * The slots are the caller's memory. The index is made from them by hash_index_init(), so it need
 * not outlive the process. A slot begins with a word that is HASH_USED or HASH_FREE; its key
 * follows, then the caller's data.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/siphash.h"

#define HASH_NONE UINT32_MAX
#define HASH_FREE 0u
#define HASH_USED 0x75736564u

struct hash_slot {
	/* HASH_USED or HASH_FREE; written last when a slot is filled, first when it is emptied */
	uint32_t used;
	uint32_t reserved;
	unsigned char key[];
};

struct hash_index {
	char *slots;
	size_t slot_size, key_size; /* bytes; a key has at most 48, and a multiple of 4 */
	uint32_t n_slots;
	uint32_t *used_max; /* the caller's: no slot from this one on was ever used */
	struct siphash_key hash_key;
	/*
	 * Give more slots memory, from slot n_backed on, and move n_backed on. Returns false when
	 * there is no memory.
	 */
	bool (*back)(struct hash_index *t, void *user);
	void *user;
	uint32_t n_backed;

	uint32_t n_buckets; /* a power of two */
	uint32_t *heads, *next;
	/*
	 * the bucket of each slot, HASH_NONE when it is free; changed under the bucket's lock, read
	 * without it
	 */
	uint32_t *bucket_of;
	pthread_mutex_t lock; /* of the list of free slots, and nothing else */
	uint32_t free_head;
};

/*
 * Make the index of the slots that are in use. Two slots with the same key, a slot that is neither
 * used nor free, and a *used_max beyond the slots are damage. Returns 0, -ENOMEM or -EBADMSG.
 */
int hash_index_init(struct hash_index *t);
void hash_index_destroy(struct hash_index *t);

static inline struct hash_slot *hash_index_slot(const struct hash_index *t, uint32_t i)
{
	return (struct hash_slot *)(t->slots + (size_t)i * t->slot_size);
}

/*
 * The caller has a lock for each bucket, and holds it while it calls the functions below. They take
 * only the lock of the list of free slots.
 */
uint32_t hash_index_bucket(const struct hash_index *t, const void *key);

/* Returns the number of the key's slot, or HASH_NONE. */
uint32_t hash_index_find(const struct hash_index *t, uint32_t bucket, const void *key);

/*
 * For walks over the slots. Returns the bucket whose lock to take, or HASH_NONE; ask again under
 * the lock.
 */
static inline uint32_t hash_index_bucket_of(const struct hash_index *t, uint32_t i)
{
	return __atomic_load_n(&t->bucket_of[i], __ATOMIC_RELAXED);
}

/* Slots from this one on were never used. */
static inline uint32_t hash_index_used_max(const struct hash_index *t)
{
	return __atomic_load_n(t->used_max, __ATOMIC_RELAXED);
}

/*
 * Take a free slot for KEY, which has none yet. The caller fills in the rest, then calls
 * hash_index_publish(). Returns HASH_NONE when all slots are used.
 */
uint32_t hash_index_reserve(struct hash_index *t, const void *key);
void hash_index_publish(struct hash_index *t, uint32_t bucket, uint32_t i);

/* Take the slot out of the index and make it free. */
void hash_index_delete(struct hash_index *t, uint32_t bucket, uint32_t i);
