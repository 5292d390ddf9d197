/* SPDX-License-Identifier: GPL-2.0-or-later */
/* util.h - cleanup attributes, which show ownership at the declaration; and the boot clock. */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define _cleanup_close_ __attribute__((cleanup(close_fd)))

static inline void free_ptr(void *p)
{
	free(*(void **)p);
}
#define _cleanup_free_ __attribute__((cleanup(free_ptr)))

static inline void close_file(FILE **f)
{
	if (*f)
		fclose(*f);
}
#define _cleanup_fclose_ __attribute__((cleanup(close_file)))

/* Pass ownership of the descriptor to the caller: its cleanup attribute closes nothing then. */
static inline int take_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

/* For descriptors that libraries open without O_CLOEXEC. */
static inline void fcntl_cloexec(int fd)
{
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Nanoseconds of the boot clock. */
static inline uint64_t boot_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* mnl_nlmsg_ok() takes a length of 2^31 or more for a negative one, and accepts it. */
#define nlmsg_fits(nlh, left) (mnl_nlmsg_ok(nlh, left) && (nlh)->nlmsg_len <= (uint32_t)(left))

/* Milliseconds of the boot clock: it runs during suspend, and BPF programs can read it. */
static inline uint64_t boot_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
