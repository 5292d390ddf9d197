/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * util.h - ownership that is visible at the declaration, and the clock that the daemon's adapters
 * read.
 */
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

/* Hand the descriptor over: the cleanup finds nothing to close. */
static inline int take_fd(int *fd)
{
	int r = *fd;

	*fd = -1;
	return r;
}

/*
 * For descriptors that libraries open; nothing is executed, this is for the guardian's sake and for
 * good measure.
 */
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

/* mnl_nlmsg_ok() takes a length beyond 2^31 for a negative one, and lets it pass. */
#define nlmsg_fits(nlh, left) (mnl_nlmsg_ok(nlh, left) && (nlh)->nlmsg_len <= (uint32_t)(left))

/*
 * Milliseconds of the boot clock, which goes on during suspend and is what the BPF programs read.
 */
static inline uint64_t boot_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
