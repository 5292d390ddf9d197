// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "core/record.h"
#include "pins.h"
#include "base/util.h"

#define BPFFS_USUAL "/sys/fs/bpf"

static bool on_bpffs(const char *path)
{
	struct statfs s;

	return statfs(path, &s) == 0 && (unsigned long)s.f_type == BPF_FS_MAGIC;
}

static int mount_bpffs(const char *path)
{
	if (mount("bpf", path, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0)
		return errno == EPERM || errno == ENODEV ? -EOPNOTSUPP : -errno;
	return 0;
}

static int make_directories(const char *path)
{
	char buf[256];

	if (path[0] != '/' || strlen(path) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, path);
	for (char *p = buf + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(buf, 0700) < 0 && errno != EEXIST)
			return -errno;
		*p = c;
		if (!c)
			return 0;
	}
}

int pins_prepare(const char *path)
{
	size_t n = strlen(BPFFS_USUAL);
	bool usual = !strncmp(path, BPFFS_USUAL, n) && (path[n] == '/' || !path[n]);
	int r;

	/* the directory above it need not be readable for us */
	if (on_bpffs(path))
		return 0;
	if (usual && !on_bpffs(BPFFS_USUAL)) {
		r = mount_bpffs(BPFFS_USUAL);
		if (r < 0)
			return r;
	}
	r = make_directories(path);
	if (r < 0)
		return r;
	return on_bpffs(path) ? 0 : usual ? -EOPNOTSUPP : mount_bpffs(path);
}

static bool is_mount_point(const char *path)
{
	struct stat a, b;
	char parent[300];

	snprintf(parent, sizeof(parent), "%s/..", path);
	return stat(path, &a) == 0 && stat(parent, &b) == 0 && a.st_dev != b.st_dev;
}

int pins_remove(const char *path)
{
	DIR *d;
	struct dirent *e;

	if (!on_bpffs(path))
		return 0;
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	if (is_mount_point(path) && strcmp(path, BPFFS_USUAL) != 0)
		umount2(path, MNT_DETACH);
	if (rmdir(path) < 0 && errno != ENOENT && errno != EBUSY)
		return -errno;
	return 0;
}

void pins_path(char *buf, size_t size, const char *dir, const char *map)
{
	snprintf(buf, size, "%s/%s-%d", dir, map, RECORD_VERSION);
}
