/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_option.h - the table of options, and how a value gets into a configuration. Only config.c,
 * which has the table, and config_file.c and config_args.c, which read values, include it.
 */
#pragma once

#include "config.h"

enum option_kind {
	OPTION_CHOICE,	   /* one of the words in `words`, stored as its index */
	OPTION_NUMBER,	   /* uint32_t between min and max */
	OPTION_PATH,	   /* absolute */
	OPTION_INTERFACES, /* a list */
	OPTION_PREFIXES,   /* a list */
	OPTION_LOG_LEVEL,
	OPTION_BOOL, /* uint32_t; true and false in the file */
};

struct config_option {
	const char *name; /* as a key of the file; on the command line `-` stands for `_` */
	enum option_kind kind;
	size_t offset;
	const char *const *words;
	size_t n_words;
	const char *const
		*old_words; /* by the same index: earlier names, still accepted; or NULL */
	uint32_t min, max;
	bool file_only;
};

#define CONFIG_OPTIONS 18 /* entries of config_options */
extern const struct config_option config_options[];

/* Reports each problem and counts them. */
struct config_problems {
	config_report_fn *report;
	void *user;
	unsigned int n;
};

void config_problem(struct config_problems *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Report something that is no problem, and so is not counted. */
void config_notice(const struct config_problems *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Set an option from a word, or a list's option to have one more. Returns NULL, or why the value is
 * refused, for a line that names it; valid until the thread's next call.
 */
const char *config_set_word(struct config *c, const struct config_option *o, const char *word);
/* The same from a number, to where the option is. */
const char *config_set_number(const struct config_option *o, uint32_t *to, long long n);
/*
 * The present name of a choice's value, if WORD is an earlier name of it that is still accepted;
 * else NULL.
 */
const char *config_new_word(const struct config_option *o, const char *word);
/* May be NULL: there is no option of that name. */
const struct config_option *config_find_option(const char *name);
