// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "json_util.h"
#include "unix_listen.h"
#include "base/util.h"
#include "varlink.h"
#include "varlink_message.h"
#include "varlink_service.h"

#define PRIORITY SD_EVENT_PRIORITY_IDLE

#define CONNECTIONS_DEFAULT 64
#define CONNECTIONS_PER_UID_DEFAULT 32
#define STALL_MS_DEFAULT 30000
#define READ_SIZE 4096
/* Bounds the work for new connections, and the retries while no descriptor is free for them. */
#define ACCEPTS_PER_SECOND 500

struct varlink_call {
	struct connection *connection;
	bool active; /* there is a call, and it has not been released */
	bool ended;  /* the last answer is queued */
	bool more, oneway;
	void *state;
	void (*resume)(struct varlink_call *call, void *state);
	void (*release)(void *state);
};

struct connection {
	struct varlink_server *server;
	struct connection *next, **link;
	sd_event_source *io, *stall;
	int fd;
	uid_t uid;
	bool eof;   /* the peer sends nothing more; it may still read */
	bool dead;  /* connection_work() will free it, when no caller uses it any more */
	bool moved; /* the peer read something since the stall timer was set */
	struct buffer in, out;
	struct varlink_call call;
};

struct varlink_server {
	struct varlink_config config;
	sd_event *event;
	sd_event_source *listener;
	char *path;
	struct connection *connections;
};

/* Answers */

/*
 * Let the connection be freed at its next dispatch. The shutdown causes a dispatch even when the
 * peer does nothing.
 */
static void connection_cut(struct connection *c)
{
	c->dead = true;
	shutdown(c->fd, SHUT_RDWR);
}

static int connection_queue(struct connection *c, struct json_object *message)
{
	size_t length;
	const char *text = json_object_to_json_string_length(
		message, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
	int r;

	if (!text)
		return -ENOMEM;
	r = buffer_reserve(&c->out, length + 1, VARLINK_OUTPUT_MAX);
	if (r < 0)
		return r;
	memcpy(c->out.data + c->out.end, text, length + 1);
	c->out.end += length + 1;
	return 0;
}

static void answer(struct varlink_call *call, const char *error, struct json_object *parameters,
		   bool continues)
{
	struct connection *c = call->connection;
	struct json_object *message = json_object_new_object();

	assert(call->active && !call->ended);
	if (error)
		json_add_string(message, "error", error);
	json_object_object_add(message, "parameters",
			       parameters ? parameters : json_object_new_object());
	if (continues)
		json_add_bool(message, "continues", true);
	/* The output buffer is full: the reader is too slow. */
	if (!call->oneway && connection_queue(c, message) < 0)
		connection_cut(c);
	json_object_put(message);
	call->ended = !continues;
	sd_event_source_set_io_events(c->io, EPOLLOUT);
}

void varlink_reply(struct varlink_call *call, struct json_object *parameters)
{
	answer(call, NULL, parameters, false);
}

void varlink_notify(struct varlink_call *call, struct json_object *parameters)
{
	assert(call->more);
	answer(call, NULL, parameters, true);
}

void varlink_error(struct varlink_call *call, const char *name, struct json_object *parameters)
{
	answer(call, name, parameters, false);
}

void varlink_invalid_parameter(struct varlink_call *call, const char *name)
{
	varlink_error(call, VARLINK_SERVICE ".InvalidParameter",
		      varlink_string_object("parameter", name));
}

void varlink_permission_denied(struct varlink_call *call)
{
	varlink_error(call, VARLINK_SERVICE ".PermissionDenied", NULL);
}

uid_t varlink_call_uid(const struct varlink_call *call)
{
	return call->connection->uid;
}

void varlink_keep(struct varlink_call *call, void *state,
		  void (*resume)(struct varlink_call *call, void *state),
		  void (*release)(void *state))
{
	assert(call->active && !call->release && release);
	call->state = state;
	call->resume = resume;
	call->release = release;
}

bool varlink_has_room(const struct varlink_call *call)
{
	return buffer_length(&call->connection->out) < VARLINK_OUTPUT_ROOM;
}

const struct varlink_config *varlink_call_config(const struct varlink_call *call)
{
	return &call->connection->server->config;
}

/* Calls */

static void call_start(struct connection *c, const struct varlink_message *message)
{
	const struct varlink_method *method =
		varlink_find_method(&c->server->config, message->method);
	struct varlink_call *call = &c->call;
	const char *bad;

	*call = (struct varlink_call){
		.connection = c, .active = true, .more = message->more, .oneway = message->oneway
	};
	if (!method)
		varlink_error(call, VARLINK_SERVICE ".MethodNotFound",
			      varlink_string_object("method", message->method));
	else if (method->needs_more && !message->more)
		varlink_error(call, VARLINK_SERVICE ".ExpectedMore", NULL);
	else if ((bad = varlink_bad_parameter(method->parameters, message->parameters)))
		varlink_invalid_parameter(call, bad);
	else
		method->run(call, message->parameters, c->server->config.user);
	/* run() must answer or call varlink_keep(). */
	assert(call->ended || call->release);
	if (call->oneway)
		call->ended = true;
}

static void call_release(struct varlink_call *call)
{
	if (!call->active)
		return;
	call->active = false;
	if (call->release)
		call->release(call->state);
}

/* Connections */

static void connection_free(struct connection *c)
{
	call_release(&c->call);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->stall);
	close(c->fd);
	free(c->in.data);
	free(c->out.data);
	free(c);
}

/* Can connection_step() do something now? */
static bool connection_has_work(const struct connection *c)
{
	if (c->dead)
		return false;
	if (c->call.active && c->call.ended)
		return true;
	if (!varlink_has_room(&c->call))
		return false;
	return c->call.active ? c->call.resume != NULL : buffer_message_length(&c->in) >= 0;
}

static void connection_start_call(struct connection *c)
{
	size_t length = (size_t)buffer_message_length(&c->in);
	struct varlink_message message;

	if (varlink_message_parse(&message, c->in.data + c->in.start, length) < 0) {
		c->dead = true;
		return;
	}
	buffer_consume(&c->in, length + 1);
	call_start(c, &message);
	varlink_message_free(&message);
}

static void connection_step(struct connection *c)
{
	struct varlink_call *call = &c->call;
	size_t before = buffer_length(&c->out);

	if (!call->active) {
		connection_start_call(c);
	} else if (call->ended) {
		call_release(call);
	} else {
		call->resume(call, call->state);
		assert(call->ended || c->dead || buffer_length(&c->out) > before);
	}
}

static void connection_flush(struct connection *c)
{
	while (!c->dead && buffer_length(&c->out)) {
		ssize_t n = send(c->fd, c->out.data + c->out.start, buffer_length(&c->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) {
			c->dead = errno != EAGAIN && errno != EINTR;
			return;
		}
		c->moved = true;
		buffer_consume(&c->out, (size_t)n);
	}
}

static void connection_arm_stall(struct connection *c, bool waits_for_reader)
{
	bool armed = sd_event_source_get_enabled(c->stall, NULL) > 0;

	if (waits_for_reader && (c->moved || !armed)) {
		sd_event_source_set_time_relative(c->stall, c->server->config.stall_ms * 1000);
		sd_event_source_set_enabled(c->stall, SD_EVENT_ONESHOT);
	} else if (!waits_for_reader && armed) {
		sd_event_source_set_enabled(c->stall, SD_EVENT_OFF);
	}
	c->moved = false;
}

/* Choose the events that wake the connection next. */
static void connection_arm(struct connection *c)
{
	uint32_t events = 0;

	/*
	 * While a call is answered, later ones wait in the socket. EPOLLHUP comes without being
	 * asked for.
	 */
	if (!c->eof && !c->call.active && buffer_message_length(&c->in) < 0)
		events |= EPOLLIN;
	/*
	 * Remaining work makes answers, so EPOLLOUT is the right time for it. A defer source would
	 * be unfair: sd-event orders it by the time when it was made, so that a connection that
	 * re-arms an old one always comes first.
	 */
	if (buffer_length(&c->out) || connection_has_work(c))
		events |= EPOLLOUT;
	sd_event_source_set_io_events(c->io, events);
	connection_arm_stall(c, events & EPOLLOUT);
}

/*
 * Every event of a connection ends here. While the server runs, connections are freed only here, so
 * that no caller is left with a freed one.
 */
static void connection_work(struct connection *c)
{
	bool done;

	for (int i = 0; i < VARLINK_STEPS_PER_DISPATCH && connection_has_work(c); i++)
		connection_step(c);
	connection_flush(c);
	done = c->eof && !c->call.active && buffer_message_length(&c->in) < 0 &&
	       !buffer_length(&c->out);
	if (c->dead || done)
		connection_free(c);
	else
		connection_arm(c);
}

static void connection_read(struct connection *c)
{
	size_t left = VARLINK_CALL_MAX - buffer_length(&c->in);
	ssize_t n;

	if (buffer_reserve(&c->in, left < READ_SIZE ? left : READ_SIZE, VARLINK_CALL_MAX) < 0) {
		c->dead = true;
		return;
	}
	n = recv(c->fd, c->in.data + c->in.end, c->in.capacity - c->in.end, MSG_DONTWAIT);
	if (n > 0)
		c->in.end += (size_t)n;
	else if (n == 0)
		c->eof = true;
	else
		c->dead = errno != EAGAIN && errno != EINTR;
	/* The call is longer than VARLINK_CALL_MAX. */
	if (buffer_length(&c->in) == VARLINK_CALL_MAX && buffer_message_length(&c->in) < 0)
		c->dead = true;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *user)
{
	struct connection *c = user;

	(void)source;
	(void)fd;
	if (events & EPOLLIN)
		connection_read(c);
	else if (events & (EPOLLHUP | EPOLLERR))
		c->dead = true;
	connection_work(c);
	return 0;
}

static int on_stall(sd_event_source *source, uint64_t usec, void *user)
{
	struct connection *c = user;
	struct pollfd pfd = { .fd = c->fd, .events = POLLOUT };

	(void)source;
	(void)usec;
	/* If the peer can be written to, it was this process that did not run for so long. */
	if (poll(&pfd, 1, 0) <= 0)
		c->dead = true;
	connection_work(c);
	return 0;
}

static int connection_add_sources(struct connection *c, sd_event *event)
{
	int r;

	r = sd_event_add_io(event, &c->io, c->fd, EPOLLIN, on_io, c);
	if (r < 0)
		return r;
	r = sd_event_add_time(event, &c->stall, CLOCK_MONOTONIC, 0, 0, on_stall, c);
	if (r < 0)
		return r;
	sd_event_source_set_enabled(c->stall, SD_EVENT_OFF);
	sd_event_source_set_priority(c->io, PRIORITY);
	sd_event_source_set_priority(c->stall, PRIORITY);
	return 0;
}

/* Takes ownership of FD. */
static void connection_new(struct varlink_server *s, int fd, uid_t uid)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return;
	}
	c->server = s;
	c->fd = fd;
	c->uid = uid;
	c->call.connection = c;
	c->link = &s->connections;
	c->next = s->connections;
	if (c->next)
		c->next->link = &c->next;
	s->connections = c;
	if (connection_add_sources(c, s->event) < 0)
		connection_free(c);
}

/* The server */

static bool may_connect(const struct varlink_server *s, uid_t uid)
{
	unsigned int all = 0, same = 0;

	for (const struct connection *c = s->connections; c; c = c->next) {
		all++;
		same += c->uid == uid;
	}
	return all < s->config.connections && same < s->config.connections_per_uid;
}

static int on_connect(sd_event_source *source, int listen_fd, uint32_t events, void *user)
{
	struct varlink_server *s = user;
	_cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t length = sizeof(peer);

	(void)source;
	(void)events;
	/* The error concerns this connection only; the next one may work. */
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return 0;
	if (may_connect(s, peer.uid))
		connection_new(s, take_fd(&fd), peer.uid);
	return 0;
}

int varlink_server_new(struct varlink_server **ret, sd_event *event,
		       const struct varlink_config *config)
{
	struct varlink_server *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->config = *config;
	if (!s->config.connections)
		s->config.connections = CONNECTIONS_DEFAULT;
	if (!s->config.connections_per_uid)
		s->config.connections_per_uid = CONNECTIONS_PER_UID_DEFAULT;
	if (!s->config.stall_ms)
		s->config.stall_ms = STALL_MS_DEFAULT;
	s->event = sd_event_ref(event);
	*ret = s;
	return 0;
}

void varlink_server_free(struct varlink_server *s)
{
	if (!s)
		return;
	while (s->connections)
		connection_free(s->connections);
	/* Before the socket is closed: after that the path may belong to another server. */
	if (s->path)
		unlink(s->path);
	free(s->path);
	sd_event_source_disable_unref(s->listener);
	sd_event_unref(s->event);
	free(s);
}

int varlink_server_listen(struct varlink_server *s, const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int fd = -1;
	int r;

	assert(!s->listener);
	if (!copy)
		return -ENOMEM;
	fd = unix_listen(path, mode);
	if (fd < 0)
		return fd;
	r = sd_event_add_io(s->event, &s->listener, fd, EPOLLIN, on_connect, s);
	if (r < 0) {
		unlink(path);
		return r;
	}
	sd_event_source_set_io_fd_own(s->listener, true);
	take_fd(&fd);
	s->path = copy;
	copy = NULL;
	sd_event_source_set_priority(s->listener, PRIORITY);
	sd_event_source_set_ratelimit(s->listener, 1000000, ACCEPTS_PER_SECOND);
	return 0;
}
