/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink.h - a small varlink server on sd-event and json-c.
 *
 * A message is a JSON object and a NUL byte. The server lives in the event loop at idle priority:
 * it never blocks, does a bounded amount of work each time it runs, and bounds what it keeps for a
 * connection. It knows nothing of the daemon.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

/* Bytes of one call and its NUL; a longer one closes the connection. */
#define VARLINK_CALL_MAX (64u * 1024)
/* Bytes of answers that wait for their reader; more closes the connection. */
#define VARLINK_OUTPUT_MAX (1024u * 1024)
/* With so many waiting no call is started and no stream resumed. */
#define VARLINK_OUTPUT_ROOM (64u * 1024)
/* Calls started and streams resumed before others have their turn. */
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
	 * Answers now, or calls varlink_keep() and answers later. PARAMETERS were checked against
	 * the list below; they are valid during the call only. USER is varlink_config.user.
	 */
	void (*run)(struct varlink_call *call, struct json_object *parameters, void *user);
	const struct varlink_parameter *parameters; /* a NULL name ends them; NULL: none */
	bool needs_more; /* who does not ask for "more" gets ExpectedMore */
};

struct varlink_interface {
	const char *name;
	const char *description; /* what GetInterfaceDescription returns */
	const struct varlink_method *methods;
};

/* What it points to stays the caller's and must outlive the server. 0 in a limit: its default. */
struct varlink_config {
	const char *vendor, *product, *version, *url;	   /* for GetInfo */
	const struct varlink_interface *const *interfaces; /* NULL ends them */
	void *user;
	unsigned int connections;	  /* 64: beyond, a new connection is closed at once */
	unsigned int connections_per_uid; /* 32: so that one user cannot shut out all others */
	uint64_t stall_ms;		  /* 30000: who reads nothing for so long is cut off */
};

/* Return 0 or -errno. The server must not be freed from within a method or a callback of a call. */
int varlink_server_new(struct varlink_server **ret, sd_event *event,
		       const struct varlink_config *config);
void varlink_server_free(struct varlink_server *s);

/*
 * Listen on PATH, once; errors as unix_listen() has them. varlink_server_free() removes it.
 */
int varlink_server_listen(struct varlink_server *s, const char *path, mode_t mode);

/*
 * Answers. They take over PARAMETERS, which may be NULL for none. After the last one (reply or
 * error) no other may follow. They only queue: neither the call nor its connection ends before the
 * caller is back in the event loop.
 */
void varlink_reply(struct varlink_call *call, struct json_object *parameters);
/* More follow. For methods that need "more". */
void varlink_notify(struct varlink_call *call, struct json_object *parameters);
void varlink_error(struct varlink_call *call, const char *name, struct json_object *parameters);
void varlink_invalid_parameter(struct varlink_call *call, const char *name);
void varlink_permission_denied(struct varlink_call *call);

/* Who calls: the user of the process that opened the connection, when it did. */
uid_t varlink_call_uid(const struct varlink_call *call);

/*
 * The call is answered after run() has returned.
 *
 * RESUME (or NULL) is called whenever there is room for output; each time it must answer at least
 * once. A long answer is thus made piece by piece, as its reader takes it.
 *
 * RELEASE is called once: after the last answer, or when the connection is gone, whichever is
 * first. CALL is invalid from then on.
 */
void varlink_keep(struct varlink_call *call, void *state,
		  void (*resume)(struct varlink_call *call, void *state),
		  void (*release)(void *state));

/* False while the reader lags behind: what is not urgent should wait. */
bool varlink_has_room(const struct varlink_call *call);
