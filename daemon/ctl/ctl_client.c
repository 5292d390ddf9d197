// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl_client.h"
#include "varlink/json_util.h"

#define ANSWER_MAX (16u * 1024 * 1024)
#define READ_SIZE 16384

static int __attribute__((format(printf, 3, 4)))
fail(struct ctl_client *c, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->problem, sizeof(c->problem), fmt, ap);
	va_end(ap);
	return error;
}

static int fail_connect(struct ctl_client *c, int error)
{
	if (error == -ENOENT || error == -ECONNREFUSED)
		return fail(c, error, "is tsnatd running? tried %s: %s", c->path, strerror(-error));
	if (error == -EAGAIN)
		return fail(c, -ETIMEDOUT, "tsnatd does not accept connections at %s", c->path);
	return fail(c, error, "cannot connect to %s: %s", c->path, strerror(-error));
}

static int fail_closed(struct ctl_client *c)
{
	return fail(c, -ECONNRESET, "tsnatd closed the connection");
}

int ctl_open(struct ctl_client *c, const char *path, const sigset_t *wait_mask)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	/* limits connect(), too: unix(7) */
	struct timeval timeout = { .tv_sec = CTL_TIMEOUT_MS / 1000 };
	int r;

	*c = (struct ctl_client){ .path = path, .fd = -1, .wait_mask = wait_mask };
	if (strlen(path) >= sizeof(address.sun_path))
		return fail_connect(c, -ENAMETOOLONG);
	strcpy(address.sun_path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 ||
	    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(c->fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		r = fail_connect(c, -errno);
		ctl_close(c);
		return r;
	}
	return 0;
}

void ctl_close(struct ctl_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	free(c->in.data);
	c->in = (struct buffer){ 0 };
	free(c->error);
	c->error = NULL;
	json_object_put(c->error_parameters);
	c->error_parameters = NULL;
}

/* Takes over PARAMETERS, which may be NULL. */
static int send_call(struct ctl_client *c, const char *method, struct json_object *parameters,
		     bool more)
{
	struct json_object *call = json_object_new_object();
	const char *text;
	size_t length;
	ssize_t n;

	json_add_string(call, "method", method);
	if (parameters)
		json_object_object_add(call, "parameters", parameters);
	if (more)
		json_add_bool(call, "more", true);
	text = json_object_to_json_string_length(call, JSON_C_TO_STRING_PLAIN, &length);
	/* a call is far smaller than the socket's buffer, so send() takes it whole */
	n = send(c->fd, text, length + 1, MSG_NOSIGNAL);
	json_object_put(call);
	return n == (ssize_t)length + 1 ? 0 : fail_closed(c);
}

static int64_t monotonic_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_readable(struct ctl_client *c, int64_t deadline_ms)
{
	struct pollfd pfd = { .fd = c->fd, .events = POLLIN };
	int r;

	do {
		int64_t left = deadline_ms - monotonic_ms();
		struct timespec t = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };

		if (left <= 0)
			return fail(c, -ETIMEDOUT, "no answer from tsnatd within %d s",
				    CTL_TIMEOUT_MS / 1000);
		r = ppoll(&pfd, 1, &t, c->wait_mask);
		if (r < 0 && (errno != EINTR || c->wait_mask))
			return fail(c, -errno, "waiting for tsnatd: %s", strerror(errno));
	} while (r <= 0);
	return 0;
}

static int read_some(struct ctl_client *c, int64_t deadline_ms)
{
	ssize_t n;
	int r = wait_readable(c, deadline_ms);

	if (r < 0)
		return r;
	if (buffer_reserve(&c->in, READ_SIZE, ANSWER_MAX) < 0)
		return fail(c, -EMSGSIZE, "the answer of tsnatd is too long");
	n = recv(c->fd, c->in.data + c->in.end, c->in.capacity - c->in.end, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return fail_closed(c);
	c->in.end += (size_t)n;
	return 0;
}

/* Wait for a message. Returns its length without the NUL that ends it. */
static ssize_t read_message(struct ctl_client *c)
{
	int64_t deadline_ms = monotonic_ms() + CTL_TIMEOUT_MS;
	ssize_t length;

	while ((length = buffer_message_length(&c->in)) < 0) {
		int r = read_some(c, deadline_ms);

		if (r < 0)
			return r;
	}
	return length;
}

/* LENGTH includes the NUL, which tells the tokener that nothing follows. */
static struct json_object *parse(const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *o = NULL;

	if (tokener) {
		json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
		o = json_tokener_parse_ex(tokener, text, (int)length);
		json_tokener_free(tokener);
	}
	return o;
}

/* The answer is an error. Some errors have a parameter "reason". */
static int fail_error(struct ctl_client *c, const char *error, struct json_object *parameters)
{
	const char *reason = parameters ? json_get_string(parameters, "reason") : NULL;

	free(c->error);
	json_object_put(c->error_parameters);
	c->error = strdup(error);
	c->error_parameters = json_object_get(parameters);
	return fail(c, -EREMOTEIO, "tsnatd answered %s%s%s", error, reason ? ": " : "",
		    reason ? reason : "");
}

static int take_answer(struct ctl_client *c, struct json_object *message, struct json_object **ret)
{
	struct json_object *parameters;
	const char *error;

	if (!json_object_is_type(message, json_type_object))
		return fail(c, -EBADMSG, "the answer at %s is not varlink", c->path);
	parameters = json_object_object_get(message, "parameters");
	if (!json_object_is_type(parameters, json_type_object))
		parameters = NULL;
	error = json_get_string(message, "error");
	if (error)
		return fail_error(c, error, parameters);
	*ret = parameters ? json_object_get(parameters) : json_object_new_object();
	return json_object_get_boolean(json_object_object_get(message, "continues"));
}

/* Returns 1 when more answers follow. -EREMOTEIO: the answer is an error. */
static int receive_answer(struct ctl_client *c, struct json_object **ret)
{
	struct json_object *message;
	ssize_t length = read_message(c);
	int r;

	if (length < 0)
		return (int)length;
	message = parse(c->in.data + c->in.start, (size_t)length + 1);
	buffer_consume(&c->in, (size_t)length + 1);
	r = take_answer(c, message, ret);
	json_object_put(message);
	return r;
}

int ctl_call(struct ctl_client *c, const char *method, struct json_object **ret)
{
	int r = send_call(c, method, NULL, false);

	if (r < 0)
		return r;
	r = receive_answer(c, ret);
	return r < 0 ? r : 0;
}

int ctl_open_and_call(struct ctl_client *c, const char *path, const char *method,
		      struct json_object **ret)
{
	int r = ctl_open(c, path, NULL);

	return r < 0 ? r : ctl_call(c, method, ret);
}

int ctl_call_more(struct ctl_client *c, const char *method, struct json_object *parameters,
		  int (*fn)(void *user, struct json_object *answer), void *user)
{
	int r = send_call(c, method, parameters, true), more = 1;

	while (r == 0 && more) {
		struct json_object *answer;

		more = receive_answer(c, &answer);
		if (more < 0)
			return more;
		r = fn(user, answer);
		json_object_put(answer);
	}
	return r;
}
