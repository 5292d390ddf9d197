// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "json_util.h"
#include "varlink_service.h"

static const char service_description[] =
	"# The description of a varlink service\n"
	"interface " VARLINK_SERVICE "\n"
	"\n"
	"# The names of the service and of its interfaces\n"
	"method GetInfo() -> (\n"
	"\tvendor: string,\n"
	"\tproduct: string,\n"
	"\tversion: string,\n"
	"\turl: string,\n"
	"\tinterfaces: []string\n"
	")\n"
	"\n"
	"# The definition of one interface\n"
	"method GetInterfaceDescription(interface: string) -> (description: string)\n"
	"\n"
	"# There is no such interface\n"
	"error InterfaceNotFound(interface: string)\n"
	"\n"
	"# There is no such method\n"
	"error MethodNotFound(method: string)\n"
	"\n"
	"# The method is defined, but not implemented\n"
	"error MethodNotImplemented(method: string)\n"
	"\n"
	"# This parameter is missing, of the wrong type, out of range or unknown\n"
	"error InvalidParameter(parameter: string)\n"
	"\n"
	"# The caller may not do this\n"
	"error PermissionDenied()\n"
	"\n"
	"# The method has several answers: ask with \"more\"\n"
	"error ExpectedMore()\n";

struct json_object *varlink_string_object(const char *key, const char *value)
{
	struct json_object *o = json_object_new_object();

	json_add_string(o, key, value);
	return o;
}

static const struct varlink_interface service;

static bool is_interface(const struct varlink_interface *i, const char *name, size_t length)
{
	return strlen(i->name) == length && memcmp(i->name, name, length) == 0;
}

static const struct varlink_interface *find_interface(const struct varlink_config *config,
						      const char *name, size_t length)
{
	if (is_interface(&service, name, length))
		return &service;
	for (size_t i = 0; config->interfaces[i]; i++)
		if (is_interface(config->interfaces[i], name, length))
			return config->interfaces[i];
	return NULL;
}

static void get_info(struct varlink_call *call, struct json_object *parameters, void *user)
{
	const struct varlink_config *config = varlink_call_config(call);
	struct json_object *info = json_object_new_object(), *names = json_object_new_array();

	(void)parameters;
	(void)user;
	json_add_string(info, "vendor", config->vendor);
	json_add_string(info, "product", config->product);
	json_add_string(info, "version", config->version);
	json_add_string(info, "url", config->url);
	json_object_array_add(names, json_object_new_string(VARLINK_SERVICE));
	for (size_t i = 0; config->interfaces[i]; i++)
		json_object_array_add(names, json_object_new_string(config->interfaces[i]->name));
	json_object_object_add(info, "interfaces", names);
	varlink_reply(call, info);
}

static void get_interface_description(struct varlink_call *call, struct json_object *parameters,
				      void *user)
{
	const char *name = json_get_string(parameters, "interface");
	const struct varlink_interface *found =
		find_interface(varlink_call_config(call), name, strlen(name));

	(void)user;
	if (found)
		varlink_reply(call, varlink_string_object("description", found->description));
	else
		varlink_error(call, VARLINK_SERVICE ".InterfaceNotFound",
			      varlink_string_object("interface", name));
}

static const struct varlink_method service_methods[] = {
	{ .name = "GetInfo", .run = get_info },
	{ .name = "GetInterfaceDescription",
	  .run = get_interface_description,
	  .parameters =
		  (const struct varlink_parameter[]){ { "interface", json_type_string, false },
						      { 0 } } },
	{ 0 },
};

static const struct varlink_interface service = { VARLINK_SERVICE, service_description,
						  service_methods };

const struct varlink_method *varlink_find_method(const struct varlink_config *config,
						 const char *method)
{
	const char *dot = strrchr(method, '.');
	const struct varlink_interface *in =
		dot ? find_interface(config, method, (size_t)(dot - method)) : NULL;

	for (const struct varlink_method *m = in ? in->methods : NULL; m && m->name; m++)
		if (strcmp(m->name, dot + 1) == 0)
			return m;
	return NULL;
}
