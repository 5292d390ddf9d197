// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "varlink_message.h"

#define NESTING_MAX 16

/* Returns NULL when TEXT is no JSON object. */
static struct json_object *parse_object(const char *text, size_t length)
{
	struct json_tokener *tokener = json_tokener_new_ex(NESTING_MAX);
	struct json_object *o;

	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	/* With its NUL, by which the tokener knows that nothing follows. */
	o = json_tokener_parse_ex(tokener, text, (int)length + 1);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tokener);
	return o;
}

static bool take_flag(bool *ret, struct json_object *value)
{
	if (!json_object_is_type(value, json_type_boolean))
		return false;
	*ret = json_object_get_boolean(value);
	return true;
}

/* Take one top-level member of a call. False: it is unknown or has the wrong type. */
static bool take_member(struct varlink_message *m, const char *key, struct json_object *value)
{
	bool upgrade;

	if (strcmp(key, "method") == 0) {
		m->method = json_object_is_type(value, json_type_string)
				    ? json_object_get_string(value)
				    : NULL;
		return m->method != NULL;
	}
	if (strcmp(key, "parameters") == 0) {
		m->parameters = value;
		return !value || json_object_is_type(value, json_type_object);
	}
	if (strcmp(key, "more") == 0)
		return take_flag(&m->more, value);
	if (strcmp(key, "oneway") == 0)
		return take_flag(&m->oneway, value);
	/* "upgrade" asks for another protocol on the connection. No method here has one. */
	return strcmp(key, "upgrade") == 0 && take_flag(&upgrade, value) && !upgrade;
}

static bool take_members(struct varlink_message *m)
{
	json_object_object_foreach(m->root, key, value)
	{
		if (!take_member(m, key, value))
			return false;
	}
	return m->method && !(m->more && m->oneway);
}

int varlink_message_parse(struct varlink_message *ret, const char *text, size_t length)
{
	struct varlink_message m = { .root = parse_object(text, length) };

	if (!m.root)
		return -EBADMSG;
	if (!take_members(&m)) {
		varlink_message_free(&m);
		return -EBADMSG;
	}
	if (!m.parameters) {
		m.parameters = json_object_new_object();
		json_object_object_add(m.root, "parameters", m.parameters);
	}
	*ret = m;
	return 0;
}

void varlink_message_free(struct varlink_message *m)
{
	json_object_put(m->root);
	*m = (struct varlink_message){ 0 };
}

static bool is_known(const struct varlink_parameter *known, const char *name)
{
	for (; known && known->name; known++)
		if (strcmp(known->name, name) == 0)
			return true;
	return false;
}

const char *varlink_bad_parameter(const struct varlink_parameter *known,
				  struct json_object *parameters)
{
	for (const struct varlink_parameter *p = known; p && p->name; p++) {
		struct json_object *value = json_object_object_get(parameters, p->name);

		if (value ? !json_object_is_type(value, p->type) : !p->optional)
			return p->name;
	}
	json_object_object_foreach(parameters, name, unused)
	{
		if (!is_known(known, name))
			return name;
	}
	return NULL;
}
