/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink-peer.h - a client that sends and receives raw bytes, and runs the event loop of the
 * server under test.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include <cmocka.h>

#include "varlink/buffer.h"
#include "base/util.h"

#define PEER_PATIENCE_MS 10000
#define PEER_READ_SIZE 65536

struct peer {
	sd_event *event;
	int fd;
	struct buffer in;
	bool closed;   /* by the server */
	char *message; /* the last one that peer_next() returned */
};

/* A new directory and the path of a socket in it. */
struct peer_place {
	char dir[64];
	char path[96];
};

static inline void peer_place_make(struct peer_place *p)
{
	strcpy(p->dir, "/tmp/varlink-test-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/socket", p->dir);
}

static inline void peer_place_remove(struct peer_place *p)
{
	assert_int_equal(access(p->path, F_OK), -1);
	assert_int_equal(rmdir(p->dir), 0);
}

static inline int peer_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	strcpy(address.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static inline void peer_open(struct peer *p, sd_event *event, const char *path)
{
	*p = (struct peer){ .event = event, .fd = peer_socket(path) };
}

static inline void peer_close(struct peer *p)
{
	close(p->fd);
	free(p->in.data);
	free(p->message);
	*p = (struct peer){ .fd = -1 };
}

/* Run the server until it has nothing to do. */
static inline void peer_run_server(sd_event *event)
{
	while (sd_event_run(event, 0) > 0)
		;
}

/* Run the server for MS milliseconds. */
static inline void peer_run_server_ms(sd_event *event, uint64_t ms)
{
	uint64_t end = boot_ms() + ms, now;

	while ((now = boot_ms()) < end)
		assert_true(sd_event_run(event, (end - now) * 1000) >= 0);
}

static inline void peer_send_bytes(struct peer *p, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n) {
		ssize_t sent = send(p->fd, at, n, MSG_NOSIGNAL);

		if (sent < 0) {
			/* The server may have closed the connection. */
			assert_true(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
			if (errno != EAGAIN)
				return;
			peer_run_server(p->event);
			continue;
		}
		at += sent;
		n -= (size_t)sent;
	}
}

/* Send one call, with its NUL. */
static inline void peer_send(struct peer *p, const char *json)
{
	peer_send_bytes(p, json, strlen(json) + 1);
}

/* Read up to MAX bytes, without waiting. Returns their number. */
static inline size_t peer_read(struct peer *p, size_t max)
{
	ssize_t n;

	assert_int_equal(buffer_reserve(&p->in, max, 64u << 20), 0);
	n = recv(p->fd, p->in.data + p->in.end, max, 0);
	if (n > 0) {
		p->in.end += (size_t)n;
		return (size_t)n;
	}
	if (n == 0 || errno != EAGAIN)
		p->closed = true;
	return 0;
}

/*
 * Returns the next message, valid until the next call; NULL when the server closed the connection.
 */
static inline const char *peer_next(struct peer *p)
{
	uint64_t end = boot_ms() + PEER_PATIENCE_MS;
	ssize_t length;

	while ((length = buffer_message_length(&p->in)) < 0) {
		if (p->closed)
			return NULL;
		if (peer_read(p, PEER_READ_SIZE))
			continue;
		if (boot_ms() > end)
			fail_msg("the server neither answers nor closes");
		assert_true(sd_event_run(p->event, 10000) >= 0);
	}
	free(p->message);
	p->message = strndup(p->in.data + p->in.start, (size_t)length);
	buffer_consume(&p->in, (size_t)length + 1);
	return p->message;
}

static inline void peer_expect(struct peer *p, const char *json)
{
	const char *message = peer_next(p);

	assert_non_null(message);
	assert_string_equal(message, json);
}

static inline void peer_expect_closed(struct peer *p)
{
	assert_null(peer_next(p));
	assert_int_equal(buffer_length(&p->in), 0);
}

/* Nothing comes, and the connection stays. */
static inline void peer_expect_silence(struct peer *p)
{
	peer_run_server(p->event);
	assert_int_equal(peer_read(p, PEER_READ_SIZE), 0);
	assert_false(p->closed);
}
