/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink_message.h - one varlink call: from bytes to its parts, and the check of its parameters.
 */
#pragma once

#include <stddef.h>

#include "varlink.h"

struct varlink_message {
	struct json_object *root;	/* owns the rest */
	const char *method;		/* with its interface */
	struct json_object *parameters; /* an object, empty when the call has none */
	bool more, oneway;
};

/*
 * Parse LENGTH bytes at TEXT, which a NUL byte follows. Returns 0 or -errno: -EBADMSG when it is
 * not a call that can be answered. The protocol has no answer to that but closing the connection.
 */
int varlink_message_parse(struct varlink_message *ret, const char *text, size_t length);
void varlink_message_free(struct varlink_message *m);

/*
 * The name of the first parameter that is missing, of the wrong type or not KNOWN; NULL when all is
 * well.
 */
const char *varlink_bad_parameter(const struct varlink_parameter *known,
				  struct json_object *parameters);
