// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "records.h"
#include "records_file.h"
#include "base/mutex.h"
#include "hash_index.h"
#include "base/util.h"

struct records {
	struct records_file file;
	struct hash_index records, destinations;
	pthread_mutex_t stripe[RECORDS_STRIPES];

	/* the list of destinations from the least to the most recently used one, under one lock */
	pthread_mutex_t destinations_lock;
	uint32_t *older, *newer;
	uint32_t oldest, newest, uses;
};

static bool back_slots(struct hash_index *t, void *user)
{
	const char *from = (const char *)hash_index_slot(t, t->n_backed),
		   *end = (const char *)hash_index_slot(t, t->n_slots);
	size_t n = records_file_back(user, from, (size_t)(end - from));

	t->n_backed += (uint32_t)(n / t->slot_size);
	return n >= t->slot_size;
}

static int compare_uses(const void *a, const void *b, void *user)
{
	const struct records *t = user;
	const struct destination_slot *x =
		(void *)hash_index_slot(&t->destinations, *(const uint32_t *)a);
	const struct destination_slot *y =
		(void *)hash_index_slot(&t->destinations, *(const uint32_t *)b);
	int32_t d = (int32_t)(x->used_at - y->used_at);

	return d < 0 ? -1 : d > 0;
}

static void list_append(struct records *t, uint32_t i)
{
	struct destination_slot *s = (void *)hash_index_slot(&t->destinations, i);

	s->used_at = ++t->uses;
	t->older[i] = t->newest;
	t->newer[i] = HASH_NONE;
	if (t->newest != HASH_NONE)
		t->newer[t->newest] = i;
	else
		t->oldest = i;
	t->newest = i;
}

static void list_remove(struct records *t, uint32_t i)
{
	if (t->older[i] != HASH_NONE)
		t->newer[t->older[i]] = t->newer[i];
	else
		t->oldest = t->newer[i];
	if (t->newer[i] != HASH_NONE)
		t->older[t->newer[i]] = t->older[i];
	else
		t->newest = t->older[i];
}

static int list_destinations(struct records *t)
{
	const uint32_t max = t->file.header->destinations_used_max;
	_cleanup_free_ uint32_t *order = malloc((max + 1) * sizeof(*order));
	uint32_t n = 0;

	t->older = malloc(t->file.header->id.destinations * sizeof(*t->older));
	t->newer = malloc(t->file.header->id.destinations * sizeof(*t->newer));
	t->oldest = t->newest = HASH_NONE;
	if (!order || !t->older || !t->newer)
		return -ENOMEM;
	for (uint32_t i = 0; i < max; i++)
		if (hash_index_slot(&t->destinations, i)->used == HASH_USED)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), compare_uses, t);
	for (uint32_t i = 0; i < n; i++)
		list_append(t, order[i]);
	return 0;
}

static int make_index(struct records *t)
{
	struct header *h = t->file.header;
	int r;

	t->records = (struct hash_index){
		.slots = (char *)records_file_records(&t->file),
		.slot_size = sizeof(struct record_slot),
		.key_size = sizeof(struct tuple),
		.n_slots = h->id.records,
		.used_max = &h->records_used_max,
		.hash_key = h->id.hash_key,
		.back = back_slots,
		.user = &t->file,
	};
	t->destinations = (struct hash_index){
		.slots = (char *)records_file_destinations(&t->file),
		.slot_size = sizeof(struct destination_slot),
		.key_size = sizeof(struct destination_key),
		.n_slots = h->id.destinations,
		.used_max = &h->destinations_used_max,
		.hash_key = h->id.hash_key,
		.back = back_slots,
		.user = &t->file,
	};
	r = hash_index_init(&t->records);
	if (r < 0)
		return r;
	r = hash_index_init(&t->destinations);
	if (r < 0)
		return r;
	r = list_destinations(t);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < h->records_used_max; i++)
		((struct record_slot *)hash_index_slot(&t->records, i))->decided_ns = 0;
	return 0;
}

static void drop_index(struct records *t)
{
	hash_index_destroy(&t->records);
	hash_index_destroy(&t->destinations);
	free(t->older);
	free(t->newer);
	t->older = t->newer = NULL;
}

static int open_or_make(struct records *t, const char *path, const struct records_config *cfg)
{
	int live = records_file_open(&t->file, path, cfg->boot_id), r;

	if (live == 1) {
		r = make_index(t);
		if (r == 0)
			return 1;
		drop_index(t);
		if (r != -EBADMSG)
			return r;
		live = r;
	}
	records_file_close(&t->file);
	if (live < 0 && live != -EBADMSG)
		return live;
	r = records_file_make(&t->file, path, cfg);
	if (r < 0)
		return r;
	r = make_index(t);
	return r < 0 ? r : live;
}

int records_open(struct records **ret, const char *path, const struct records_config *cfg)
{
	struct records *t = calloc(1, sizeof(*t));
	int r = t ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	t->file.fd = -1;
	for (size_t i = 0; i < RECORDS_STRIPES; i++)
		mutex_init_inheriting(&t->stripe[i]);
	mutex_init_inheriting(&t->destinations_lock);
	r = open_or_make(t, path, cfg);
	/* -EBADMSG told of the old file; if no new one could be made there is no mapping */
	if (r < 0 && (r != -EBADMSG || !t->newer)) {
		records_close(t);
		return r;
	}
	*ret = t;
	return r;
}

void records_close(struct records *t)
{
	if (!t)
		return;
	drop_index(t);
	records_file_close(&t->file);
	for (size_t i = 0; i < RECORDS_STRIPES; i++)
		pthread_mutex_destroy(&t->stripe[i]);
	pthread_mutex_destroy(&t->destinations_lock);
	free(t);
}

uint32_t records_limit(const struct records *t)
{
	return t->file.header->id.records;
}

struct tsclock *records_clock(struct records *t)
{
	return &t->file.header->clock;
}

void records_count(struct records *t, enum counter which, uint64_t n)
{
	__atomic_fetch_add(&t->file.header->counters[which], n, __ATOMIC_RELAXED);
}

uint64_t records_counter(const struct records *t, enum counter which)
{
	return __atomic_load_n(&t->file.header->counters[which], __ATOMIC_RELAXED);
}

/* ---- records ---- */

static struct record_slot *record_slot(const struct records *t, uint32_t i)
{
	return (struct record_slot *)hash_index_slot(&t->records, i);
}

void records_lock(struct records *t, const struct tuple *key, struct records_ref *ret)
{
	ret->records = t;
	ret->bucket = hash_index_bucket(&t->records, key);
	pthread_mutex_lock(&t->stripe[ret->bucket % RECORDS_STRIPES]);
	ret->slot = hash_index_find(&t->records, ret->bucket, key);
	ret->record = ret->slot == HASH_NONE ? NULL : &record_slot(t, ret->slot)->record;
}

void records_unlock(struct records_ref *ref)
{
	pthread_mutex_unlock(&ref->records->stripe[ref->bucket % RECORDS_STRIPES]);
}

int records_insert(struct records_ref *ref, const struct tuple *key, const struct record *r)
{
	struct records *t = ref->records;
	uint32_t i = hash_index_reserve(&t->records, key);
	struct record_slot *s;

	if (i == HASH_NONE)
		return -ENOSPC;
	s = record_slot(t, i);
	s->decided_ns = 0;
	s->record = *r;
	hash_index_publish(&t->records, ref->bucket, i);
	ref->slot = i;
	ref->record = &s->record;
	return 0;
}

void records_replace(struct records_ref *ref, const struct record *r)
{
	struct journal *j = &ref->records->file.header->journal[ref->bucket % RECORDS_STRIPES];

	j->slot = ref->slot;
	j->record = *r;
	__atomic_store_n(&j->valid, 1, __ATOMIC_RELEASE);
	*ref->record = *r;
	__atomic_store_n(&j->valid, 0, __ATOMIC_RELEASE);
}

void records_delete(struct records_ref *ref)
{
	hash_index_delete(&ref->records->records, ref->bucket, ref->slot);
	ref->record = NULL;
	ref->slot = HASH_NONE;
}

uint64_t records_decided_ns(const struct records_ref *ref)
{
	return __atomic_load_n(&record_slot(ref->records, ref->slot)->decided_ns, __ATOMIC_RELAXED);
}

void records_set_decided_ns(struct records *t, uint32_t slot, uint64_t ns)
{
	__atomic_store_n(&record_slot(t, slot)->decided_ns, ns, __ATOMIC_RELAXED);
}

static bool read_slot(struct records *t, uint32_t i, struct records_item *ret)
{
	uint32_t bucket = hash_index_bucket_of(&t->records, i);
	pthread_mutex_t *lock = &t->stripe[bucket % RECORDS_STRIPES];
	bool there;

	if (bucket == HASH_NONE)
		return false;
	pthread_mutex_lock(lock);
	there = hash_index_bucket_of(&t->records, i) == bucket;
	if (there)
		*ret = (struct records_item){ record_slot(t, i)->tuple, record_slot(t, i)->record };
	pthread_mutex_unlock(lock);
	return there;
}

uint32_t records_read(struct records *t, uint32_t *cursor, struct records_item *items, uint32_t max)
{
	uint32_t n = 0, i = *cursor;

	for (; i < hash_index_used_max(&t->records) && n < max; i++)
		n += read_slot(t, i, &items[n]);
	*cursor = i < hash_index_used_max(&t->records) ? i : 0;
	return n;
}

/* ---- destinations ---- */

static uint32_t destination_make(struct records *t, const struct destination_key *k,
				 uint32_t bucket)
{
	uint32_t i = hash_index_reserve(&t->destinations, k);

	if (i == HASH_NONE && t->oldest != HASH_NONE) {
		const uint32_t old = t->oldest;

		list_remove(t, old);
		hash_index_delete(&t->destinations,
				  hash_index_bucket(&t->destinations,
						    hash_index_slot(&t->destinations, old)->key),
				  old);
		i = hash_index_reserve(&t->destinations, k);
	}
	if (i == HASH_NONE)
		return i;
	((struct destination_slot *)hash_index_slot(&t->destinations, i))->destination =
		(struct destination){ 0 };
	list_append(t, i);
	hash_index_publish(&t->destinations, bucket, i);
	return i;
}

struct destination *records_destination_lock(struct records *t, const struct destination_key *k,
					     bool make)
{
	uint32_t bucket = hash_index_bucket(&t->destinations, k), i;

	pthread_mutex_lock(&t->destinations_lock);
	i = hash_index_find(&t->destinations, bucket, k);
	if (i != HASH_NONE && i != t->newest) {
		list_remove(t, i);
		list_append(t, i);
	}
	if (i == HASH_NONE && make)
		i = destination_make(t, k, bucket);
	return i == HASH_NONE ? NULL
			      : &((struct destination_slot *)hash_index_slot(&t->destinations, i))
					 ->destination;
}

void records_destination_unlock(struct records *t)
{
	pthread_mutex_unlock(&t->destinations_lock);
}

int records_destination_at(struct records *t, uint32_t i, struct destination_key *ret_key,
			   struct destination *ret)
{
	const struct destination_slot *s;
	int r = -ENOENT;

	pthread_mutex_lock(&t->destinations_lock);
	if (i < t->file.header->destinations_used_max) {
		s = (const void *)hash_index_slot(&t->destinations, i);
		r = s->used == HASH_USED;
		if (r) {
			*ret_key = s->key;
			*ret = s->destination;
		}
	}
	pthread_mutex_unlock(&t->destinations_lock);
	return r;
}
