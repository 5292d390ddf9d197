// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "records_file.h"
#include "base/util.h"

#define MAGIC "TSNATrm"
#define VERSION_OF_FILE (RECORD_VERSION << 16 | 1)
#define BACK_BYTES (256u << 10)

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
	return page_up(destinations_offset(id) +
		       (size_t)id->destinations * sizeof(struct destination_slot));
}

/* Returns 1 when the header is ours and of this boot, 0 when it is of another boot, or -EBADMSG. */
static int check_header(const struct header *h, size_t size, const uint8_t boot_id[16])
{
	const struct identity *id = &h->id;

	if (memcmp(id->magic, MAGIC, sizeof(id->magic)) != 0 || h->check != check_of(id) ||
	    id->version != VERSION_OF_FILE || id->header_size != sizeof(*h) ||
	    id->record_size != sizeof(struct record_slot) ||
	    id->destination_size != sizeof(struct destination_slot) || file_size(id) != size)
		return -EBADMSG;
	return memcmp(id->boot_id, boot_id, 16) == 0;
}

struct record_slot *records_file_records(const struct records_file *f)
{
	return (struct record_slot *)((char *)f->header + records_offset());
}

struct destination_slot *records_file_destinations(const struct records_file *f)
{
	return (struct destination_slot *)((char *)f->header + destinations_offset(&f->header->id));
}

/*
 * Finish the replacements that were under way when a process was killed: the journal has the whole
 * record.
 */
static void replay_journal(struct records_file *f)
{
	for (size_t i = 0; i < RECORDS_STRIPES; i++) {
		struct journal *j = &f->header->journal[i];
		struct record_slot *s;

		if (!j->valid || j->slot >= f->header->id.records)
			continue;
		s = records_file_records(f) + j->slot;
		s->record = j->record;
		j->valid = 0;
	}
}

int records_file_open(struct records_file *f, const char *path, const uint8_t boot_id[16])
{
	struct stat st;
	void *p;
	int r;

	f->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (f->fd < 0)
		return errno == ENOENT ? 0 : errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(f->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(struct header))
		return -EBADMSG;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	f->header = p;
	f->size = (size_t)st.st_size;
	r = check_header(f->header, f->size, boot_id);
	if (r == 1)
		replay_journal(f);
	return r;
}

int records_file_make(struct records_file *f, const char *path, const struct records_config *cfg)
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
	f->fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return -errno;
	f->size = file_size(&id);
	if (ftruncate(f->fd, (off_t)f->size) < 0)
		return -errno;
	r = posix_fallocate(f->fd, 0, (off_t)records_offset());
	if (r)
		return -r;
	p = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	f->header = p;
	f->header->id = id;
	f->header->check = check_of(&id);
	return rename(tmp, path) < 0 ? -errno : 0;
}

void records_file_close(struct records_file *f)
{
	if (f->header)
		munmap(f->header, f->size);
	f->header = NULL;
	close_fd(&f->fd);
	f->fd = -1;
}

size_t records_file_back(struct records_file *f, const void *from, size_t len)
{
	size_t n = len < BACK_BYTES ? len : BACK_BYTES;

	return posix_fallocate(f->fd, (const char *)from - (const char *)f->header, (off_t)n) == 0
		       ? n
		       : 0;
}
