// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <zlib.h>

#include "state.h"
#include "base/util.h"

#define STATE_MAGIC "TSNATst"
#define STATE_VERSION 1
#define PATH_SIZE 160

/* In host byte order: a state directory stays with its machine. */
struct state_header {
	char magic[8];
	uint32_t version;
	/* zlib's crc32 of the whole file, with 0 in this field */
	uint32_t crc;
	uint32_t record_size, destination_size;
	uint32_t records, destinations;
	uint32_t now_ms;      /* boot clock at the save; all stamps in the file are of that boot */
	uint32_t clock_ms;    /* the clock's base plus boot time at the save */
	uint32_t interval_ms; /* time from this save to the next */
	uint32_t reserved;
};

struct state_record {
	struct tuple tuple;
	uint32_t reserved;
	struct record record;
};

struct state_destination {
	struct destination_key key;
	struct destination destination;
};

/* ---- the secret ---- */

static int read_secret(const char *path, struct siphash_key *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct siphash_key key;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, &key, sizeof(key));
	if (n != (ssize_t)sizeof(key))
		return n < 0 ? -errno : -ENOENT; /* a crash cut it short: make a new one */
	*ret = key;
	return 0;
}

static int write_whole(const char *path, const void *data, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, data, len);
	if (n != (ssize_t)len)
		return n < 0 ? -errno : -ENOSPC;
	return fsync(fd) < 0 ? -errno : 0;
}

static int sync_directory(const char *dir)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int replace_file(const char *dir, const char *from, const char *to)
{
	if (rename(from, to) < 0)
		return -errno;
	return sync_directory(dir);
}

int state_secret(const char *dir, struct siphash_key *ret)
{
	char path[PATH_SIZE], tmp[PATH_SIZE];
	struct siphash_key key;
	int r;

	snprintf(path, sizeof(path), "%s/secret", dir);
	snprintf(tmp, sizeof(tmp), "%s/secret.new", dir);
	r = read_secret(path, ret);
	if (r != -ENOENT)
		return r;
	if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return -EIO;
	r = write_whole(tmp, &key, sizeof(key));
	if (r < 0)
		return r;
	r = replace_file(dir, tmp, path);
	if (r < 0)
		return r;
	*ret = key;
	return 0;
}

/* ---- saving ---- */

struct writer {
	FILE *f;
	uint32_t crc;
	uint32_t records, destinations;
};

static int write_out(FILE *f, const void *data, size_t len)
{
	errno = 0;
	if (fwrite(data, len, 1, f) == 1)
		return 0;
	return errno ? -errno : -EIO;
}

static int put(struct writer *w, const void *data, size_t len)
{
	w->crc = (uint32_t)crc32(w->crc, data, (unsigned int)len);
	return write_out(w->f, data, len);
}

static int put_record(void *user, const struct tuple *t, const struct record *r)
{
	struct writer *w = user;
	const struct state_record s = { .tuple = *t, .record = *r };

	w->records++;
	return put(w, &s, sizeof(s));
}

static int put_destination(void *user, const struct destination_key *k, const struct destination *d)
{
	struct writer *w = user;
	const struct state_destination s = { .key = *k, .destination = *d };

	w->destinations++;
	return put(w, &s, sizeof(s));
}

/*
 * The checksum of header and entries, from the checksum of the entries alone: the header comes
 * first in the file, but is complete only after the entries were written.
 */
static uint32_t header_crc(struct state_header h, uint32_t entries_crc, uint64_t entries_len)
{
	h.crc = 0;
	return (uint32_t)crc32_combine(crc32(0, (const unsigned char *)&h, sizeof(h)), entries_crc,
				       (z_off_t)entries_len);
}

static int write_state(FILE *f, const struct datapath_ops *ops, struct datapath *dp,
		       struct state_header *h)
{
	struct writer w = { .f = f };
	int r;

	r = write_out(f, h, sizeof(*h));
	if (r < 0)
		return r;
	r = ops->each(dp, put_record, &w);
	if (r < 0)
		return r;
	r = ops->each_destination(dp, put_destination, &w);
	if (r < 0)
		return r;
	h->records = w.records;
	h->destinations = w.destinations;
	h->crc = header_crc(*h, w.crc,
			    (uint64_t)w.records * sizeof(struct state_record) +
				    (uint64_t)w.destinations * sizeof(struct state_destination));
	if (fseek(f, 0, SEEK_SET) < 0)
		return -errno;
	r = write_out(f, h, sizeof(*h));
	if (r < 0)
		return r;
	return fflush(f) != 0 || fsync(fileno(f)) < 0 ? -errno : 0;
}

int state_save(const char *dir, const struct datapath_ops *ops, struct datapath *dp,
	       const struct tsclock *clock, uint64_t now_ms, uint32_t interval_ms)
{
	struct state_header h = {
		.magic = STATE_MAGIC,
		.version = STATE_VERSION,
		.record_size = sizeof(struct state_record),
		.destination_size = sizeof(struct state_destination),
		.now_ms = (uint32_t)now_ms,
		.clock_ms = (uint32_t)now_ms + clock->base_ms,
		.interval_ms = interval_ms,
	};
	char path[PATH_SIZE], tmp[PATH_SIZE];
	_cleanup_fclose_ FILE *f = NULL;
	int r, fd;

	snprintf(path, sizeof(path), "%s/state", dir);
	snprintf(tmp, sizeof(tmp), "%s/state.new", dir);
	fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	r = write_state(f, ops, dp, &h);
	if (r >= 0)
		r = replace_file(dir, tmp, path);
	if (r < 0)
		unlink(tmp); /* a partial file is useless, and takes space on a full disk */
	return r;
}

/* ---- loading ---- */

struct image {
	void *data;
	size_t len;
};

static void unmap_image(struct image *i)
{
	if (i->data)
		munmap(i->data, i->len);
}

/* Why the image is no valid state file; NULL: it is valid. */
static const char *find_damage(const struct image *i)
{
	const struct state_header *h = i->data;
	struct state_header zero_crc;
	uint64_t want;
	uint32_t crc;

	if (i->len < sizeof(*h))
		return i->len ? "it is cut short" : "it is empty";
	if (memcmp(h->magic, STATE_MAGIC, sizeof(h->magic)) != 0)
		return "it does not begin like a state file";
	if (h->version != STATE_VERSION || h->record_size != sizeof(struct state_record) ||
	    h->destination_size != sizeof(struct state_destination))
		return "it was written by another version";
	want = sizeof(*h) + (uint64_t)h->records * h->record_size +
	       (uint64_t)h->destinations * h->destination_size;
	if (i->len != want)
		return "it is cut short or too long";
	zero_crc = *h;
	zero_crc.crc = 0;
	crc = (uint32_t)crc32_z(crc32(0, (const unsigned char *)&zero_crc, sizeof(zero_crc)),
				(const unsigned char *)i->data + sizeof(*h), i->len - sizeof(*h));
	return crc == h->crc ? NULL : "its checksum is wrong";
}

/* ERROR is positive. */
static int unreadable(int error, const char **ret_why)
{
	if (error != ENOENT)
		*ret_why = strerrordesc_np(error);
	return -error;
}

/*
 * Returns 0; -ENOENT when there is no file; -EBADMSG when it is damaged; or another -errno.
 * *RET_WHY is set with all errors but -ENOENT.
 */
static int map_image(const char *path, struct image *ret, const char **ret_why)
{
	/* O_NONBLOCK: opening a pipe would wait for its writer */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct image i = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return unreadable(errno, ret_why);
	if (S_ISREG(st.st_mode) && st.st_size > 0) {
		i.len = (size_t)st.st_size;
		i.data = mmap(NULL, i.len, PROT_READ, MAP_PRIVATE, fd, 0);
		if (i.data == MAP_FAILED)
			return unreadable(errno, ret_why);
	}
	*ret_why = S_ISREG(st.st_mode) ? find_damage(&i) : "it is not a file";
	if (*ret_why) {
		unmap_image(&i);
		return -EBADMSG;
	}
	*ret = i;
	return 0;
}

/* Convert a stamp of the saved boot to this boot. The time between the boots counts as 0 ms. */
static uint32_t this_boot(const struct state_header *h, uint32_t stamp, uint64_t now_ms)
{
	return (uint32_t)now_ms - ms_elapsed(h->now_ms, stamp);
}

/* The most that a TSval can have advanced between this save and the crash. */
static uint32_t max_advance(const struct state_header *h)
{
	return record_max_advance(h->interval_ms + STATE_SLACK_MS);
}

static uint64_t restored_last(const struct state_header *h, uint64_t last, uint64_t now_ms)
{
	return RECORD_LAST(RECORD_LAST_TSVAL(last) + max_advance(h),
			   this_boot(h, RECORD_LAST_MS(last), now_ms));
}

static void restore_records(const struct state_header *h, const struct datapath_ops *ops,
			    struct datapath *dp, uint64_t now_ms, struct state_loaded *ret)
{
	const struct state_record *s = (const void *)(h + 1);

	for (uint32_t i = 0; i < h->records; i++, s++) {
		struct record r = s->record;

		r.last = restored_last(h, r.last, now_ms);
		r.seen_ms = this_boot(h, r.seen_ms, now_ms);
		r.syn_ms = this_boot(h, r.syn_ms, now_ms);
		r.state &= RECORD_FLAGS & ~RECORD_DEAD;
		if (!record_is_open(&r) && !(r.state & RECORD_NO_LAST)) {
			/*
			 * The server may hold any TSval from the saved one to the restored one. The
			 * next SYN must be after both.
			 */
			r.base = decide_has_base(&r) ? r.base : RECORD_LAST_TSVAL(s->record.last);
			r.state &= ~(RECORD_ANSWERED | RECORD_ESTABLISHED);
			r.state |= RECORD_BASE;
		}
		if (ops->restore(dp, &s->tuple, &r) == 0)
			ret->records++;
	}
}

static void restore_destinations(const struct state_header *h, const struct datapath_ops *ops,
				 struct datapath *dp, uint64_t now_ms, struct state_loaded *ret)
{
	const struct state_destination *s =
		(const void *)((const char *)(h + 1) +
			       (size_t)h->records * sizeof(struct state_record));

	for (uint32_t i = 0; i < h->destinations; i++, s++) {
		struct destination d = s->destination;

		if (d.high)
			d.high = restored_last(h, d.high, now_ms);
		if (ops->restore_destination(dp, &s->key, &d) == 0)
			ret->destinations++;
	}
}

int state_load(const char *dir, const struct datapath_ops *ops, struct datapath *dp,
	       uint64_t now_ms, struct state_loaded *ret)
{
	char path[PATH_SIZE], tmp[PATH_SIZE], bad[PATH_SIZE];
	__attribute__((cleanup(unmap_image))) struct image image = { 0 };
	const struct state_header *h;
	const char *why = NULL;
	int r;

	*ret = (struct state_loaded){ 0 };
	snprintf(path, sizeof(path), "%s/state", dir);
	snprintf(tmp, sizeof(tmp), "%s/state.new", dir);
	snprintf(bad, sizeof(bad), "%s/state.bad", dir);
	r = map_image(path, &image, &ret->unusable);
	/* Keep also a file that cannot be read now: the next save would replace it. */
	if (ret->unusable)
		ret->aside_error = rename(path, bad) < 0 ? -errno : 0;
	/* A crash between the temporary's fsync and its rename leaves it whole. */
	if (r < 0)
		r = map_image(tmp, &image, &why);
	if (r < 0)
		return r == -EBADMSG ? -ENOENT : r;
	h = image.data;
	ret->clock_ms = h->clock_ms + h->interval_ms + STATE_SLACK_MS;
	restore_records(h, ops, dp, now_ms, ret);
	restore_destinations(h, ops, dp, now_ms, ret);
	return 0;
}
