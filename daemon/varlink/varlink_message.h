/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink_message.h - parses a varlink call and checks its parameters.
 */
#pragma once

#include <stddef.h>

#include "varlink.h"

struct varlink_message {
	struct json_object *root;	/* owned; the other members are parts of it */
	const char *method;		/* with its interface */
	struct json_object *parameters; /* an object, empty when the call has none */
	bool more, oneway;
};

/*
 * Parse LENGTH bytes at TEXT, which a NUL byte follows. Returns 0, or -EBADMSG when it is no valid
 * call: varlink has no error for that, so the connection should be closed.
 */
int varlink_message_parse(struct varlink_message *ret, const char *text, size_t length);
void varlink_message_free(struct varlink_message *m);

/*
 * Returns the name of the first parameter that is missing, of the wrong type or not KNOWN; NULL
 * when there is none.
 */
const char *varlink_bad_parameter(const struct varlink_parameter *known,
				  struct json_object *parameters);
