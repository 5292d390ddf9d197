/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * table.h - a hash index over an array of slots of fixed size.
 *
 * The slots are the caller's memory and hold all there is to know; the index is made from them anew
 * by table_init(), so it need not survive anything. A slot begins with a word that is TABLE_USED or
 * not, and its key follows; what comes behind the key is the caller's.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/siphash.h"

#define TABLE_NONE UINT32_MAX
#define TABLE_FREE 0u
#define TABLE_USED 0x75736564u

struct table_slot {
	/* TABLE_USED or TABLE_FREE; written last when a slot is filled, first when it is emptied */
	uint32_t used;
	uint32_t reserved;
	unsigned char key[];
};

struct table {
	char *slots;
	size_t slot_size, key_size; /* bytes; a key has at most 48 and is a multiple of 4 */
	uint32_t n_slots;
	uint32_t *used_max; /* the caller's, beside the slots: none from here on was ever used */
	struct siphash_key hash_key;
	/*
	 * Give more slots memory, from slot n_backed on, which it moves on. False when there is
	 * none.
	 */
	bool (*back)(struct table *t, void *user);
	void *user;
	uint32_t n_backed;

	uint32_t n_buckets; /* a power of two */
	uint32_t *heads, *next;
	/*
	 * of each slot, TABLE_NONE when it is free; changed under the bucket's lock, read without
	 */
	uint32_t *bucket_of;
	pthread_mutex_t lock; /* of the list of free slots alone */
	uint32_t free_head;
};

/*
 * Make the index of the slots that are in use. Two slots with the same key, one that is neither
 * used nor free, or a *used_max beyond the slots are damage. Returns 0, -ENOMEM or -EBADMSG.
 */
int table_init(struct table *t);
void table_destroy(struct table *t);

static inline struct table_slot *table_slot(const struct table *t, uint32_t i)
{
	return (struct table_slot *)(t->slots + (size_t)i * t->slot_size);
}

/*
 * Who changes or reads a bucket holds the caller's lock for it; the functions below take none but
 * that of the free slots.
 */
uint32_t table_bucket(const struct table *t, const void *key);

/* Its slot's number, or TABLE_NONE. */
uint32_t table_find(const struct table *t, uint32_t bucket, const void *key);

/*
 * For walks over the slots: the bucket whose lock to take, or TABLE_NONE; with the lock, ask again.
 */
static inline uint32_t table_bucket_of(const struct table *t, uint32_t i)
{
	return __atomic_load_n(&t->bucket_of[i], __ATOMIC_RELAXED);
}

/* Slots from this one on were never used. */
static inline uint32_t table_used_max(const struct table *t)
{
	return __atomic_load_n(t->used_max, __ATOMIC_RELAXED);
}

/*
 * Take a free slot for KEY, which is not there yet. The caller fills in the rest, then calls
 * table_publish(). Returns TABLE_NONE when all are used.
 */
uint32_t table_reserve(struct table *t, const void *key);
void table_publish(struct table *t, uint32_t bucket, uint32_t i);

/* Take it out and make it free. */
void table_delete(struct table *t, uint32_t bucket, uint32_t i);
