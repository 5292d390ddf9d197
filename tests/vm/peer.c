// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * peer.c - client and server for the connections in the guest.
 *
 *	peer serve PORT
 *		echo all data; after a '!' close the connection, so that TIME_WAIT is on this side
 *	peer connect COUNT ADDRESS PORT
 *		make COUNT short connections, one after the other, and print how many failed
 *	peer talk ADDRESS PORT
 *		make one connection, send each line of standard input and expect it back
 *
 * Linked statically, so that it needs no library in the guest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256 /* at once, in the server */
#define PATIENCE_S 15	    /* a SYN that is lost three times is sent again after 7 s */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned short port_of(const char *text)
{
	int port = atoi(text);

	if (port <= 0 || port > 65535) {
		errno = EINVAL;
		die(text);
	}
	return (unsigned short)port;
}

/* ---- server ---- */

static int listen_at(unsigned short port)
{
	/* For both families: IPv4 addresses appear as ::ffff:a.b.c.d. */
	const struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const int yes = 1, no = 0;
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0 ||
	    listen(fd, CONNECTIONS_MAX) < 0)
		die("cannot listen");
	return fd;
}

/* Returns false when the connection is over. */
static bool echo(int fd)
{
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	return n > 0 && write(fd, buf, (size_t)n) == n && buf[n - 1] != '!';
}

static _Noreturn void serve(unsigned short port)
{
	struct pollfd fds[1 + CONNECTIONS_MAX] = { { .fd = listen_at(port), .events = POLLIN } };
	nfds_t n = 1;

	puts("serving");
	fflush(stdout);
	for (;;) {
		/* All slots are in use: new connections wait in the backlog. */
		fds[0].events = n < 1 + CONNECTIONS_MAX ? POLLIN : 0;
		if (poll(fds, n, -1) < 0)
			die("poll");
		for (nfds_t i = n - 1; i > 0; i--) {
			if (!fds[i].revents || echo(fds[i].fd))
				continue;
			close(fds[i].fd);
			fds[i] = fds[--n];
		}
		if (fds[0].revents) {
			int fd = accept(fds[0].fd, NULL, NULL);

			if (fd >= 0)
				fds[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		}
	}
}

/* ---- client ---- */

/* Returns a connected socket, or -1 and errno. */
static int connect_to(const char *address, unsigned short port)
{
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	const int yes = 1;
	bool is6 = inet_pton(AF_INET6, address, &to6.sin6_addr) == 1;
	int fd, r;

	if (!is6 && inet_pton(AF_INET, address, &to4.sin_addr) != 1) {
		errno = EINVAL;
		die(address);
	}
	fd = socket(is6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	r = is6 ? connect(fd, (struct sockaddr *)&to6, sizeof(to6))
		: connect(fd, (struct sockaddr *)&to4, sizeof(to4));
	if (r == 0)
		return fd;
	r = errno;
	close(fd);
	errno = r;
	return -1;
}

/* Send the line and wait until it comes back. */
static bool exchange(int fd, const char *line, size_t length)
{
	char buf[4096];
	size_t got = 0;

	if (length > sizeof(buf) || write(fd, line, length) != (ssize_t)length)
		return false;
	while (got < length) {
		ssize_t n = read(fd, buf + got, length - got);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return memcmp(buf, line, length) == 0;
}

static bool connect_once(const char *address, unsigned short port)
{
	int fd = connect_to(address, port);
	bool ok;
	char end;

	if (fd < 0)
		return false;
	ok = exchange(fd, "!", 1) && read(fd, &end, 1) == 0;
	close(fd);
	return ok;
}

static int connect_often(int count, const char *address, unsigned short port)
{
	int done = 0, failed = 0;

	for (int i = 0; i < count; i++) {
		if (connect_once(address, port))
			done++;
		else
			failed++;
	}
	printf("%d done %d failed\n", done, failed);
	return failed > 0;
}

static unsigned int local_port(int fd)
{
	struct sockaddr_in6 a = { 0 };
	socklen_t len = sizeof(a);

	/* The port has the same offset in both families' addresses. */
	getsockname(fd, (struct sockaddr *)&a, &len);
	return ntohs(a.sin6_port);
}

static int talk(const char *address, unsigned short port)
{
	int fd = connect_to(address, port);
	char line[1024];

	if (fd < 0)
		die("cannot connect");
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("connected from port %u\n", local_port(fd));
	while (fgets(line, sizeof(line), stdin)) {
		if (!exchange(fd, line, strlen(line))) {
			printf("lost: %s\n", errno ? strerror(errno) : "the server closed");
			return 1;
		}
		fputs(line, stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	signal(SIGPIPE, SIG_IGN);
	if (strcmp(what, "serve") == 0 && argc == 3)
		serve(port_of(argv[2]));
	if (strcmp(what, "connect") == 0 && argc == 5)
		return connect_often(atoi(argv[2]), argv[3], port_of(argv[4]));
	if (strcmp(what, "talk") == 0 && argc == 4)
		return talk(argv[2], port_of(argv[3]));
	fprintf(stderr,
		"usage: peer serve PORT | connect COUNT ADDRESS PORT | talk ADDRESS PORT\n");
	return 2;
}
