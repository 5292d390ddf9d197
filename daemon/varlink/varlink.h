/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink.h - a small varlink server on sd-event and json-c.
 *
 * A message is a JSON object and a NUL byte. The server runs in the event loop at idle priority. It
 * never blocks, and both the work of one dispatch and the memory of one connection are bounded. It
 * knows nothing of the daemon.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

/* Bytes of one call with its NUL. A longer one closes the connection. */
#define VARLINK_CALL_MAX (64u * 1024)
/* Bytes of answers that wait for their reader. More close the connection. */
#define VARLINK_OUTPUT_MAX (1024u * 1024)
/* While as many bytes wait, no call is started and no stream resumed. */
#define VARLINK_OUTPUT_ROOM (64u * 1024)
/* Calls started and streams resumed before other connections get their turn. */
#define VARLINK_STEPS_PER_DISPATCH 16

struct varlink_server;
struct varlink_call;

struct varlink_parameter {
	const char *name;
	enum json_type type;
	bool optional; /* may be missing or null */
};

struct varlink_method {
	const char *name; /* without the interface; NULL ends a list of methods */
	/*
	 * Answer now, or call varlink_keep() and answer later. PARAMETERS were checked against the
	 * list below and are valid only until run() returns. USER is varlink_config.user.
	 */
	void (*run)(struct varlink_call *call, struct json_object *parameters, void *user);
	const struct varlink_parameter *parameters; /* a NULL name ends them; NULL: none */
	bool needs_more;			    /* calls without "more" get ExpectedMore */
};

struct varlink_interface {
	const char *name;
	const char *description; /* the answer of GetInterfaceDescription */
	const struct varlink_method *methods;
};

/* All that it points to belongs to the caller and must outlive the server. */
struct varlink_config {
	const char *vendor, *product, *version, *url;	   /* for GetInfo */
	const struct varlink_interface *const *interfaces; /* NULL ends them */
	void *user;
	/* Limits; 0 stands for the default. */
	unsigned int connections;	  /* default 64; more are closed at once */
	unsigned int connections_per_uid; /* default 32; one user cannot shut out all others */
	uint64_t stall_ms; /* default 30000; a connection whose peer reads nothing is closed then */
};

/*
 * Returns 0 or -errno. The server must not be freed from within a method or a callback of a call.
 */
int varlink_server_new(struct varlink_server **ret, sd_event *event,
		       const struct varlink_config *config);
void varlink_server_free(struct varlink_server *s);

/*
 * Listen on PATH. May be called once. Returns 0, or -errno as unix_listen() does.
 * varlink_server_free() unlinks PATH.
 */
int varlink_server_listen(struct varlink_server *s, const char *path, mode_t mode);

/*
 * Answers. They take ownership of PARAMETERS, which may be NULL. Reply and error are the last
 * answer of a call. Answers are only queued: neither the call nor its connection ends before the
 * caller returns to the event loop.
 */
void varlink_reply(struct varlink_call *call, struct json_object *parameters);
/* An answer that others follow. Only for methods with needs_more. */
void varlink_notify(struct varlink_call *call, struct json_object *parameters);
void varlink_error(struct varlink_call *call, const char *name, struct json_object *parameters);
void varlink_invalid_parameter(struct varlink_call *call, const char *name);
void varlink_permission_denied(struct varlink_call *call);

/* The user of the process that opened the connection, as it was at that time. */
uid_t varlink_call_uid(const struct varlink_call *call);

/*
 * Keep the call, to answer it after run() has returned.
 *
 * RESUME (or NULL) is called whenever there is room for output, and must answer at least once each
 * time. So a long answer is made piece by piece, as its reader takes it.
 *
 * RELEASE is called once: after the last answer or when the connection is closed, whichever is
 * first. CALL is invalid from then on.
 */
void varlink_keep(struct varlink_call *call, void *state,
		  void (*resume)(struct varlink_call *call, void *state),
		  void (*release)(void *state));

/* False while VARLINK_OUTPUT_ROOM bytes or more wait for a slow reader. */
bool varlink_has_room(const struct varlink_call *call);
