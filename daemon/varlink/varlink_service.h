/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink_service.h - finds a server's methods, and implements the interface org.varlink.service,
 * which describes the server.
 */
#pragma once

#include "varlink.h"

#define VARLINK_SERVICE "org.varlink.service"

/* METHOD includes the interface's name. Returns NULL when the server has no such method. */
const struct varlink_method *varlink_find_method(const struct varlink_config *config,
						 const char *method);

/* Make the object { KEY: VALUE }, owned by the caller. */
struct json_object *varlink_string_object(const char *key, const char *value);

/* The configuration of the call's server. In varlink.c. */
const struct varlink_config *varlink_call_config(const struct varlink_call *call);
