// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * conf-defaults FILE - exits 0 if FILE sets every option to its default. files.sh runs it on the
 * shipped configuration with every line uncommented.
 */
#include <stdio.h>
#include <string.h>

#include "config/config.h"

static void report(void *user, int level, const char *line)
{
	(void)user;
	(void)level;
	puts(line);
}

int main(int argc, char **argv)
{
	static struct config defaults, file;

	if (argc != 2)
		return 2;
	config_defaults(&defaults);
	/* options that FILE does not set keep a value that no default has */
	memset(&file, 0xee, sizeof(file));
	file.n_interfaces = file.n_external = 0;
	if (config_parse_file(&file, argv[1], report, NULL) < 0)
		return 1;
	/* lists are compared by their length: both are empty */
	if (file.n_interfaces || file.n_external)
		return 1;
	memcpy(file.interfaces, defaults.interfaces, sizeof(file.interfaces));
	memcpy(file.external, defaults.external, sizeof(file.external));
	return memcmp((const char *)&defaults + offsetof(struct config, policy),
		      (const char *)&file + offsetof(struct config, policy),
		      offsetof(struct config, log_level) + sizeof(file.log_level) -
			      offsetof(struct config, policy)) != 0;
}
