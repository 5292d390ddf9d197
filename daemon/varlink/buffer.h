/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buffer.h - a bounded byte queue for a socket: bytes are appended at the end and consumed at the
 * start.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

struct buffer {
	char *data;
	size_t start, end, capacity;
};

static inline size_t buffer_length(const struct buffer *b)
{
	return b->end - b->start;
}

/*
 * Make room for MORE bytes at b->data + b->end. Returns 0, -ENOMEM, or -ENOBUFS when the contents
 * would exceed MAX bytes. The caller writes the bytes and adds their number to b->end.
 */
static inline int buffer_reserve(struct buffer *b, size_t more, size_t max)
{
	size_t length = buffer_length(b), capacity;
	char *data;

	if (more > max || length > max - more)
		return -ENOBUFS;
	if (more <= b->capacity - b->end)
		return 0;
	if (b->start) {
		memmove(b->data, b->data + b->start, length);
		b->start = 0;
		b->end = length;
	}
	if (more <= b->capacity - b->end)
		return 0;
	capacity = 2 * (length + more) < max ? 2 * (length + more) : max;
	data = realloc(b->data, capacity);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->capacity = capacity;
	return 0;
}

static inline void buffer_consume(struct buffer *b, size_t n)
{
	b->start += n;
	if (b->start < b->end)
		return;
	/* An idle connection keeps no memory. */
	free(b->data);
	*b = (struct buffer){ 0 };
}

/* The length of the first message without its NUL; -1 when no whole message is there. */
static inline ssize_t buffer_message_length(const struct buffer *b)
{
	const char *nul;

	if (!buffer_length(b))
		return -1;
	nul = memchr(b->data + b->start, 0, buffer_length(b));
	return nul ? nul - (b->data + b->start) : -1;
}
