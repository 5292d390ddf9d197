/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * varlink_service.h - which interfaces and methods a server has, and the interface
 * org.varlink.service, in which it tells so.
 */
#pragma once

#include "varlink.h"

#define VARLINK_SERVICE "org.varlink.service"

/* METHOD with its interface; NULL when the server has none of that name. */
const struct varlink_method *varlink_find_method(const struct varlink_config *config,
						 const char *method);

/* { KEY: VALUE } */
struct json_object *varlink_string_object(const char *key, const char *value);

/* varlink.c's part: the configuration of the call's server. */
const struct varlink_config *varlink_call_config(const struct varlink_call *call);
