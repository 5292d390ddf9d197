/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * json_util.h - set and get members of JSON objects with varlink's types.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* varlink's int is signed: a larger N becomes INT64_MAX. */
static inline void json_add_number(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key,
			       json_object_new_int64(n < INT64_MAX ? (int64_t)n : INT64_MAX));
}

static inline void json_add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

/* VALUE must be UTF-8. */
static inline void json_add_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}

/* Returns 0 when there is no such number. */
static inline int64_t json_get_number(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

/* Returns NULL when there is no such string. The string belongs to O. */
static inline const char *json_get_string(struct json_object *o, const char *key)
{
	struct json_object *value = json_object_object_get(o, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}
