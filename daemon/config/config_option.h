/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * config_option.h - the table of options, and functions that set an option in struct config. Only
 * the files of config/ include it.
 */
#pragma once

#include "config.h"

enum option_kind {
	OPTION_CHOICE,	   /* uint32_t, the index of a word in `words` */
	OPTION_NUMBER,	   /* uint32_t between min and max */
	OPTION_PATH,	   /* an absolute path */
	OPTION_INTERFACES, /* a list */
	OPTION_PREFIXES,   /* a list */
	OPTION_LOG_LEVEL,  /* uint32_t, LOG_ERR ... LOG_DEBUG */
	OPTION_BOOL,	   /* uint32_t; true or false in the file */
};

struct config_option {
	const char *name; /* the key in the file; the long option has `-` in place of `_` */
	enum option_kind kind;
	size_t offset;
	const char *const *words;
	size_t n_words;
	/* earlier names of the words that are still accepted, by the same index; or NULL */
	const char *const *old_words;
	uint32_t min, max;
	bool file_only; /* not on the command line */
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
/* Report something that leaves the configuration valid. */
void config_notice(const struct config_problems *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Set an option from a word; for a list, append the word. Returns NULL, or the reason why the word
 * is refused, to be printed behind the word. The text is valid until the thread's next call.
 */
const char *config_set_word(struct config *c, const struct config_option *o, const char *word);
/* Set a number at TO, the option's field of struct config. Returns like config_set_word(). */
const char *config_set_number(const struct config_option *o, uint32_t *to, long long n);
/* If WORD is an earlier name of a value of O, its present name; else NULL. */
const char *config_new_word(const struct config_option *o, const char *word);
/* NULL: there is no option of that name. */
const struct config_option *config_find_option(const char *name);
