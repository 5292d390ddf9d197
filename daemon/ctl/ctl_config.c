// SPDX-License-Identifier: GPL-2.0-or-later
/* ctl_config.c - the subcommands check, reload and rules. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "config/config.h"
#include "ctl.h"
#include "varlink/gateway_names.h"
#include "varlink/json_util.h"
#include "base/util.h"

/* Notices are not added: the list of problems is empty when the configuration is valid. */
static void add_problem(void *user, int level, const char *line)
{
	if (level == LOG_ERR)
		json_object_array_add(user, json_object_new_string(line));
	else
		fprintf(stderr, "tsnatctl: %s\n", line);
}

static void print_lines(struct json_object *lines, const char *suffix)
{
	if (json_object_is_type(lines, json_type_array))
		for (size_t i = 0; i < json_object_array_length(lines); i++)
			fprintf(stderr, "tsnatctl: %s%s\n",
				json_object_get_string(json_object_array_get_idx(lines, i)),
				suffix);
}

/* check: the same code as tsnatd --check. The daemon need not run. */

static int load(const char *file, struct json_object *problems)
{
	char *argv[] = { (char *)"tsnatctl", (char *)"-c", (char *)file, NULL };
	enum config_action action;
	struct config config;

	return config_load(&config, &action, file ? 3 : 1, argv, add_problem, problems);
}

int ctl_check(const struct ctl_options *o)
{
	struct json_object *answer = json_object_new_object(), *problems = json_object_new_array();
	int r = load(o->file, problems);

	json_add_string(answer, "file", o->file ? o->file : CONFIG_DEFAULT_FILE);
	json_object_object_add(answer, "problems", problems);
	if (o->json)
		ctl_print_json(answer);
	else
		print_lines(problems, "");
	if (!o->file && access(CONFIG_DEFAULT_FILE, F_OK) < 0 && errno == ENOENT)
		fprintf(stderr, "tsnatctl: there is no %s: tsnatd uses its defaults\n",
			CONFIG_DEFAULT_FILE);
	json_object_put(answer);
	return r < 0 ? CTL_EXIT_INVALID : EXIT_SUCCESS;
}

/* reload */

static int reload_failed(const struct ctl_options *o, const struct ctl_client *c)
{
	const char *error = c->error ? c->error : "";

	if (strcmp(error, GATEWAY_INTERFACE ".ConfigurationInvalid") == 0) {
		if (o->json)
			ctl_print_json(c->error_parameters);
		else
			print_lines(json_object_object_get(c->error_parameters, "problems"), "");
		fprintf(stderr, "tsnatctl: the configuration is not valid; the old one stays\n");
		return CTL_EXIT_INVALID;
	}
	if (strcmp(error, "org.varlink.service.PermissionDenied") == 0) {
		fprintf(stderr, "tsnatctl: only root and the user that tsnatd runs as may reload: "
				"try sudo\n");
		return EXIT_FAILURE;
	}
	return ctl_failed(c);
}

int ctl_reload(const struct ctl_options *o)
{
	_cleanup_ctl_close_ struct ctl_client client = { .fd = -1 };
	struct json_object *answer;

	if (ctl_open_and_call(&client, o->socket, GATEWAY_INTERFACE ".Reload", &answer) < 0)
		return reload_failed(o, &client);
	if (o->json)
		ctl_print_json(answer);
	else
		print_lines(json_object_object_get(answer, "needs_restart"),
			    " changes with a restart only");
	json_object_put(answer);
	return EXIT_SUCCESS;
}

/* rules */

int ctl_rules(const struct ctl_options *o)
{
	struct json_object *answer;
	const char *nft;

	if (ctl_get(o, GATEWAY_INTERFACE ".GetRules", &answer) < 0)
		return EXIT_FAILURE;
	nft = json_get_string(answer, "nft");
	if (o->json)
		ctl_print_json(answer);
	else
		fputs(nft ? nft : "", stdout);
	json_object_put(answer);
	return EXIT_SUCCESS;
}
