// SPDX-License-Identifier: GPL-2.0-or-later
/* config_file.c - reads the configuration file with libconfig and config_scan.c. */
#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_option.h"
#include "config_scan.h"
#include "base/util.h"

#define CONFIG_FILE_MAX (1u << 20) /* bytes */

static void read_list(struct config *c, const struct config_option *o, config_setting_t *s,
		      const char *path, struct config_problems *p)
{
	for (int i = 0; i < config_setting_length(s); i++) {
		config_setting_t *e = config_setting_get_elem(s, (unsigned int)i);
		const char *word = config_setting_get_string(e);
		const char *why = word ? config_set_word(c, o, word) : "must be a string in quotes";

		if (why)
			config_problem(p, "%s:%d: %s: %s%s%s", path, config_setting_source_line(e),
				       o->name, word ? word : "", word ? " " : "", why);
	}
}

/* libconfig stores numbers as signed 32 bits: 0xffffffff comes back as -1. */
static long long number_of(config_setting_t *s)
{
	long long n = config_setting_get_int64(s);

	if (config_setting_type(s) == CONFIG_TYPE_INT &&
	    config_setting_get_format(s) == CONFIG_FORMAT_HEX)
		return (uint32_t)n;
	return n;
}

static const char *set_value(struct config *c, const struct config_option *o, config_setting_t *s)
{
	uint32_t *to = (uint32_t *)((char *)c + o->offset);
	const int type = config_setting_type(s);

	switch (o->kind) {
	case OPTION_NUMBER:
		if (type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64)
			return "must be a number";
		return config_set_number(o, to, number_of(s));
	case OPTION_BOOL:
		if (type != CONFIG_TYPE_BOOL)
			return "must be true or false";
		*to = (uint32_t)config_setting_get_bool(s);
		return NULL;
	case OPTION_CHOICE:
	case OPTION_PATH:
	case OPTION_LOG_LEVEL:
		if (type != CONFIG_TYPE_STRING)
			return "must be a string in quotes";
		return config_set_word(c, o, config_setting_get_string(s));
	case OPTION_INTERFACES:
	case OPTION_PREFIXES:
		if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
			return "must be a list: [ \"...\", \"...\" ]";
		return NULL;
	}
	return "cannot be set";
}

static void read_setting(struct config *c, config_setting_t *s, const char *path,
			 struct config_problems *p)
{
	const struct config_option *o = config_find_option(config_setting_name(s));
	const char *why, *word = config_setting_get_string(s), *new_word;
	const int line = config_setting_source_line(s);

	if (!o) {
		config_problem(p, "%s:%d: %s: there is no such option", path, line,
			       config_setting_name(s));
		return;
	}
	why = set_value(c, o, s);
	if (why) {
		config_problem(p, "%s:%d: %s: %s", path, line, o->name, why);
		return;
	}
	if (o->kind == OPTION_INTERFACES || o->kind == OPTION_PREFIXES)
		read_list(c, o, s, path, p);
	new_word = word ? config_new_word(o, word) : NULL;
	if (new_word)
		config_notice(p, "%s:%d: %s: \"%s\" is now called \"%s\"", path, line, o->name,
			      word, new_word);
}

struct file_problems {
	struct config_problems *problems;
	const char *path;
};

static void on_scan(void *user, int line, const char *key, const char *why)
{
	struct file_problems *f = user;

	config_problem(f->problems, "%s:%d: %s: %s", f->path, line, key, why);
}

/*
 * Read the whole file; the caller frees the text. -EFBIG, and -EINVAL for a zero byte: the file
 * cannot be a configuration.
 */
static int read_file(const char *path, char **ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *text = NULL;
	size_t n;

	if (!f)
		return -errno;
	text = calloc(1, CONFIG_FILE_MAX + 1);
	if (!text)
		return -ENOMEM;
	n = fread(text, 1, CONFIG_FILE_MAX + 1, f);
	if (ferror(f))
		return -errno;
	if (n > CONFIG_FILE_MAX)
		return -EFBIG;
	if (memchr(text, 0, n))
		return -EINVAL;
	*ret = text;
	text = NULL;
	return 0;
}

static void read_settings(struct config *c, const char *text, const char *path,
			  struct config_problems *p)
{
	config_setting_t *root;
	config_t file;

	config_init(&file);
	if (config_read_string(&file, text) != CONFIG_TRUE) {
		config_problem(p, "%s:%d: %s", path, config_error_line(&file),
			       config_error_text(&file));
		config_destroy(&file);
		return;
	}
	root = config_root_setting(&file);
	for (int i = 0; i < config_setting_length(root); i++)
		read_setting(c, config_setting_get_elem(root, (unsigned int)i), path, p);
	config_destroy(&file);
}

int config_parse_file(struct config *c, const char *path, config_report_fn *report, void *user)
{
	struct config_problems p = { .report = report, .user = user };
	struct config new = *c;
	_cleanup_free_ char *text = NULL;
	int r = read_file(path, &text);

	if (r == -EINVAL)
		config_problem(&p, "%s: is not a text file: it has a zero byte", path);
	if (r < 0)
		return r;
	config_scan(text, on_scan, &(struct file_problems){ .problems = &p, .path = path });
	read_settings(&new, text, path, &p);
	if (p.n)
		return -EINVAL;
	*c = new;
	return 0;
}
