// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "records.h"
#include "table.h"
#include "util.h"

#define MAGIC "TSNATrm"
#define VERSION_OF_FILE (RECORD_VERSION << 16 | 1)
#define STRIPES 256
#define BACK_BYTES (256u << 10)

/* Where a record stands whole while it is being replaced. A stripe has one, written under its lock. */
struct journal {
	uint32_t valid;
	uint32_t slot;
	struct record record;
};

/* What never changes in a file, and tells that it is one of ours. */
struct identity {
	char magic[8];
	uint32_t version;
	uint32_t header_size, record_size, destination_size; /* of the header and of the slots */
	uint32_t records, destinations;			     /* how many slots */
	uint8_t boot_id[16];
	struct siphash_key hash_key;
};

struct header {
	struct identity id;
	uint64_t check; /* of the identity */
	uint32_t records_used_max, destinations_used_max;
	struct tsclock clock;
	uint64_t counters[64];
	struct journal journal[STRIPES];
};
static_assert(COUNTER_COUNT <= 64, "the counters have room");

struct record_slot {
	uint32_t used, reserved;
	struct tuple tuple;
	uint32_t reserved2;
	uint64_t decided_ns;
	struct record record;
};

struct destination_slot {
	uint32_t used;
	uint32_t used_at; /* rises with every use: the order of the list when the file is opened again */
	struct destination_key key;
	struct destination destination;
};
static_assert(offsetof(struct record_slot, tuple) == offsetof(struct table_slot, key), "the key follows");
static_assert(offsetof(struct destination_slot, key) == offsetof(struct table_slot, key), "the key follows");

struct records {
	int fd; /* owned */
	struct header *header;
	size_t size;
	struct table records, destinations;
	pthread_mutex_t stripe[STRIPES];

	/* the destinations from the least to the most recently used one, under their one lock */
	pthread_mutex_t destinations_lock;
	uint32_t *older, *newer;
	uint32_t oldest, newest, uses;
};

static size_t page_up(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

static uint64_t check_of(const struct identity *id)
{
	const struct siphash_key key = { 0x7473, 0x6e61 };
	__u64 m[sizeof(*id) / 8];

	static_assert(sizeof(*id) % 8 == 0, "whole words");
	memcpy(m, id, sizeof(*id));
	return siphash(&key, m, ARRAY_SIZE(m));
}

static size_t records_offset(void)
{
	return page_up(sizeof(struct header));
}

static size_t destinations_offset(const struct identity *id)
{
	return page_up(records_offset() + (size_t)id->records * sizeof(struct record_slot));
}

static size_t file_size(const struct identity *id)
{
	return page_up(destinations_offset(id) + (size_t)id->destinations * sizeof(struct destination_slot));
}

/* ---- opening ---- */

/* 1 when the header is one of ours and this boot's; 0 when it is another boot's; -EBADMSG. */
static int check_header(const struct header *h, size_t size, const uint8_t boot_id[16])
{
	const struct identity *id = &h->id;

	if (memcmp(id->magic, MAGIC, sizeof(id->magic)) != 0 || h->check != check_of(id) ||
	    id->version != VERSION_OF_FILE || id->header_size != sizeof(*h) ||
	    id->record_size != sizeof(struct record_slot) || id->destination_size != sizeof(struct destination_slot) ||
	    file_size(id) != size)
		return -EBADMSG;
	return memcmp(id->boot_id, boot_id, 16) == 0;
}

/* Returns 1; 0 when it is no use, but nothing is wrong with it; or -errno. */
static int open_live(struct records *t, const char *path, const struct records_config *cfg)
{
	struct stat st;
	void *p;
	int r;

	t->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (t->fd < 0)
		return errno == ENOENT ? 0 : errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(t->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(struct header))
		return -EBADMSG;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	t->header = p;
	t->size = (size_t)st.st_size;
	r = check_header(t->header, t->size, cfg->boot_id);
	return r;
}

/* Beside the old one, then in its place: PATH is a whole file or none. */
static int make_anew(struct records *t, const char *path, const struct records_config *cfg)
{
	struct identity id = {
		.magic = MAGIC,
		.version = VERSION_OF_FILE,
		.header_size = sizeof(struct header),
		.record_size = sizeof(struct record_slot),
		.destination_size = sizeof(struct destination_slot),
		.records = cfg->records,
		.destinations = cfg->destinations,
		.hash_key = { cfg->random[0], cfg->random[1] },
	};
	char tmp[256];
	void *p;
	int r;

	memcpy(id.boot_id, cfg->boot_id, sizeof(id.boot_id));
	if (snprintf(tmp, sizeof(tmp), "%s.new", path) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	unlink(tmp);
	t->fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (t->fd < 0)
		return -errno;
	t->size = file_size(&id);
	if (ftruncate(t->fd, (off_t)t->size) < 0)
		return -errno;
	r = posix_fallocate(t->fd, 0, (off_t)records_offset());
	if (r)
		return -r;
	p = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	t->header = p;
	t->header->id = id;
	t->header->check = check_of(&id);
	return rename(tmp, path) < 0 ? -errno : 0;
}

static void unmap(struct records *t)
{
	if (t->header)
		munmap(t->header, t->size);
	t->header = NULL;
	close_fd(&t->fd);
	t->fd = -1;
}

/* Whoever was killed while it replaced a record had written all of it here first. */
static void replay_journal(struct records *t)
{
	for (size_t i = 0; i < STRIPES; i++) {
		struct journal *j = &t->header->journal[i];
		struct record_slot *s;

		if (!j->valid || j->slot >= t->header->id.records)
			continue;
		s = (struct record_slot *)((char *)t->header + records_offset()) + j->slot;
		s->record = j->record;
		j->valid = 0;
	}
}

/* A mapping of a file that has no room behind it kills whoever touches it. */
static bool back_slots(struct table *t, void *user)
{
	struct records *r = user;
	size_t from = (size_t)((char *)table_slot(t, t->n_backed) - (char *)r->header);
	size_t end = (size_t)((char *)table_slot(t, t->n_slots) - (char *)r->header);
	size_t n = BACK_BYTES < end - from ? BACK_BYTES : end - from;

	if (posix_fallocate(r->fd, (off_t)from, (off_t)n) != 0)
		return false;
	t->n_backed += (uint32_t)(n / t->slot_size);
	return true;
}

static int compare_uses(const void *a, const void *b, void *user)
{
	const struct records *t = user;
	const struct destination_slot *x = (void *)table_slot(&t->destinations, *(const uint32_t *)a);
	const struct destination_slot *y = (void *)table_slot(&t->destinations, *(const uint32_t *)b);
	int32_t d = (int32_t)(x->used_at - y->used_at);

	return d < 0 ? -1 : d > 0;
}

static void list_append(struct records *t, uint32_t i)
{
	struct destination_slot *s = (void *)table_slot(&t->destinations, i);

	s->used_at = ++t->uses;
	t->older[i] = t->newest;
	t->newer[i] = TABLE_NONE;
	if (t->newest != TABLE_NONE)
		t->newer[t->newest] = i;
	else
		t->oldest = i;
	t->newest = i;
}

static void list_remove(struct records *t, uint32_t i)
{
	if (t->older[i] != TABLE_NONE)
		t->newer[t->older[i]] = t->newer[i];
	else
		t->oldest = t->newer[i];
	if (t->newer[i] != TABLE_NONE)
		t->older[t->newer[i]] = t->older[i];
	else
		t->newest = t->older[i];
}

static int list_destinations(struct records *t)
{
	const uint32_t max = t->header->destinations_used_max;
	_cleanup_free_ uint32_t *order = malloc((max + 1) * sizeof(*order));
	uint32_t n = 0;

	t->older = malloc(t->header->id.destinations * sizeof(*t->older));
	t->newer = malloc(t->header->id.destinations * sizeof(*t->newer));
	t->oldest = t->newest = TABLE_NONE;
	if (!order || !t->older || !t->newer)
		return -ENOMEM;
	for (uint32_t i = 0; i < max; i++)
		if (table_slot(&t->destinations, i)->used == TABLE_USED)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), compare_uses, t);
	for (uint32_t i = 0; i < n; i++)
		list_append(t, order[i]);
	return 0;
}

static int make_index(struct records *t)
{
	struct header *h = t->header;
	int r;

	replay_journal(t);
	t->records = (struct table){
		.slots = (char *)h + records_offset(),
		.slot_size = sizeof(struct record_slot),
		.key_size = sizeof(struct tuple),
		.n_slots = h->id.records,
		.used_max = &h->records_used_max,
		.hash_key = h->id.hash_key,
		.back = back_slots,
		.user = t,
	};
	t->destinations = (struct table){
		.slots = (char *)h + destinations_offset(&h->id),
		.slot_size = sizeof(struct destination_slot),
		.key_size = sizeof(struct destination_key),
		.n_slots = h->id.destinations,
		.used_max = &h->destinations_used_max,
		.hash_key = h->id.hash_key,
		.back = back_slots,
		.user = t,
	};
	r = table_init(&t->records);
	if (r >= 0)
		r = table_init(&t->destinations);
	if (r >= 0)
		r = list_destinations(t);
	for (uint32_t i = 0; r >= 0 && i < h->records_used_max; i++)
		((struct record_slot *)table_slot(&t->records, i))->decided_ns = 0;
	return r;
}

static void drop_index(struct records *t)
{
	table_destroy(&t->records);
	table_destroy(&t->destinations);
	free(t->older);
	free(t->newer);
	t->older = t->newer = NULL;
}

static int open_or_make(struct records *t, const char *path, const struct records_config *cfg)
{
	int live = open_live(t, path, cfg), r;

	if (live == 1) {
		r = make_index(t);
		if (r == 0)
			return 1;
		drop_index(t);
		if (r != -EBADMSG)
			return r;
		live = r;
	}
	unmap(t);
	if (live < 0 && live != -EBADMSG)
		return live;
	r = make_anew(t, path, cfg);
	if (r >= 0)
		r = make_index(t);
	return r < 0 ? r : live;
}

int records_open(struct records **ret, const char *path, const struct records_config *cfg)
{
	struct records *t = calloc(1, sizeof(*t));
	int r = t ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	t->fd = -1;
	for (size_t i = 0; i < STRIPES; i++)
		table_mutex_init(&t->stripe[i]);
	table_mutex_init(&t->destinations_lock);
	r = open_or_make(t, path, cfg);
	/* -EBADMSG is the old file's; a failure to make the new one leaves nothing mapped that could be used */
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
	unmap(t);
	for (size_t i = 0; i < STRIPES; i++)
		pthread_mutex_destroy(&t->stripe[i]);
	pthread_mutex_destroy(&t->destinations_lock);
	free(t);
}

uint32_t records_limit(const struct records *t)
{
	return t->header->id.records;
}

struct tsclock *records_clock(struct records *t)
{
	return &t->header->clock;
}

void records_count(struct records *t, enum counter which, uint64_t n)
{
	__atomic_fetch_add(&t->header->counters[which], n, __ATOMIC_RELAXED);
}

uint64_t records_counter(const struct records *t, enum counter which)
{
	return __atomic_load_n(&t->header->counters[which], __ATOMIC_RELAXED);
}

/* ---- records ---- */

static struct record_slot *record_slot(const struct records *t, uint32_t i)
{
	return (struct record_slot *)table_slot(&t->records, i);
}

void records_lock(struct records *t, const struct tuple *key, struct records_ref *ret)
{
	ret->table = t;
	ret->bucket = table_bucket(&t->records, key);
	pthread_mutex_lock(&t->stripe[ret->bucket % STRIPES]);
	ret->slot = table_find(&t->records, ret->bucket, key);
	ret->record = ret->slot == TABLE_NONE ? NULL : &record_slot(t, ret->slot)->record;
}

void records_unlock(struct records_ref *ref)
{
	pthread_mutex_unlock(&ref->table->stripe[ref->bucket % STRIPES]);
}

int records_insert(struct records_ref *ref, const struct tuple *key, const struct record *r)
{
	struct records *t = ref->table;
	uint32_t i = table_reserve(&t->records, key);
	struct record_slot *s;

	if (i == TABLE_NONE)
		return -ENOSPC;
	s = record_slot(t, i);
	s->decided_ns = 0;
	s->record = *r;
	table_publish(&t->records, ref->bucket, i);
	ref->slot = i;
	ref->record = &s->record;
	return 0;
}

void records_replace(struct records_ref *ref, const struct record *r)
{
	struct journal *j = &ref->table->header->journal[ref->bucket % STRIPES];

	j->slot = ref->slot;
	j->record = *r;
	__atomic_store_n(&j->valid, 1, __ATOMIC_RELEASE);
	*ref->record = *r;
	__atomic_store_n(&j->valid, 0, __ATOMIC_RELEASE);
}

void records_delete(struct records_ref *ref)
{
	table_delete(&ref->table->records, ref->bucket, ref->slot);
	ref->record = NULL;
	ref->slot = TABLE_NONE;
}

uint64_t records_decided_ns(const struct records_ref *ref)
{
	return __atomic_load_n(&record_slot(ref->table, ref->slot)->decided_ns, __ATOMIC_RELAXED);
}

void records_set_decided_ns(struct records *t, uint32_t slot, uint64_t ns)
{
	__atomic_store_n(&record_slot(t, slot)->decided_ns, ns, __ATOMIC_RELAXED);
}

static bool read_slot(struct records *t, uint32_t i, struct records_item *ret)
{
	uint32_t bucket = table_bucket_of(&t->records, i);
	pthread_mutex_t *lock = &t->stripe[bucket % STRIPES];
	bool there;

	if (bucket == TABLE_NONE)
		return false;
	pthread_mutex_lock(lock);
	there = table_bucket_of(&t->records, i) == bucket;
	if (there)
		*ret = (struct records_item){ record_slot(t, i)->tuple, record_slot(t, i)->record };
	pthread_mutex_unlock(lock);
	return there;
}

uint32_t records_read(struct records *t, uint32_t *cursor, struct records_item *items, uint32_t max)
{
	uint32_t n = 0, i = *cursor;

	for (; i < table_used_max(&t->records) && n < max; i++)
		n += read_slot(t, i, &items[n]);
	*cursor = i < table_used_max(&t->records) ? i : 0;
	return n;
}

/* ---- destinations ---- */

static uint32_t destination_make(struct records *t, const struct destination_key *k, uint32_t bucket)
{
	uint32_t i = table_reserve(&t->destinations, k);

	if (i == TABLE_NONE && t->oldest != TABLE_NONE) {
		const uint32_t old = t->oldest;

		list_remove(t, old);
		table_delete(&t->destinations, table_bucket(&t->destinations, table_slot(&t->destinations, old)->key), old);
		i = table_reserve(&t->destinations, k);
	}
	if (i == TABLE_NONE)
		return i;
	((struct destination_slot *)table_slot(&t->destinations, i))->destination = (struct destination){ 0 };
	list_append(t, i);
	table_publish(&t->destinations, bucket, i);
	return i;
}

struct destination *records_destination_lock(struct records *t, const struct destination_key *k, bool make)
{
	uint32_t bucket = table_bucket(&t->destinations, k), i;

	pthread_mutex_lock(&t->destinations_lock);
	i = table_find(&t->destinations, bucket, k);
	if (i != TABLE_NONE && i != t->newest) {
		list_remove(t, i);
		list_append(t, i);
	}
	if (i == TABLE_NONE && make)
		i = destination_make(t, k, bucket);
	return i == TABLE_NONE ? NULL : &((struct destination_slot *)table_slot(&t->destinations, i))->destination;
}

void records_destination_unlock(struct records *t)
{
	pthread_mutex_unlock(&t->destinations_lock);
}

int records_destination_at(struct records *t, uint32_t i, struct destination_key *ret_key, struct destination *ret)
{
	const struct destination_slot *s;
	int r = -ENOENT;

	pthread_mutex_lock(&t->destinations_lock);
	if (i < t->header->destinations_used_max) {
		s = (const void *)table_slot(&t->destinations, i);
		r = s->used == TABLE_USED;
		if (r) {
			*ret_key = s->key;
			*ret = s->destination;
		}
	}
	pthread_mutex_unlock(&t->destinations_lock);
	return r;
}
