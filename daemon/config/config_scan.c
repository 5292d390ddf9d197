// SPDX-License-Identifier: GPL-2.0-or-later
/* config_scan.c - a scanner for libconfig's syntax that knows tokens and depth, no grammar. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_scan.h"

#define KEYS_MAX 64
#define KEY_SIZE 64

struct scan {
	config_scan_fn *found;
	void *user;
	int line, depth;
	char keys[KEYS_MAX][KEY_SIZE]; /* settings of the top level so far */
	size_t n_keys;
	char key[KEY_SIZE]; /* the present setting */
	char *duplicate;    /* the beginning of a setting that was there before, or NULL */
};

static const char *skip_string(struct scan *s, const char *p)
{
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1])
			p++;
		s->line += *p == '\n';
	}
	return *p ? p + 1 : p;
}

/* The end of the comment that begins at P; P if none begins there. */
static const char *skip_comment(struct scan *s, const char *p)
{
	const int line = s->line;

	if (*p == '#' || (*p == '/' && p[1] == '/'))
		return p + strcspn(p, "\n");
	if (*p != '/' || p[1] != '*')
		return p;
	for (p += 2; *p && !(*p == '*' && p[1] == '/'); p++)
		s->line += *p == '\n';
	if (*p)
		return p + 2;
	s->found(s->user, line, "a comment", "has no end");
	return p;
}

static bool is_key(const char *behind)
{
	behind += strspn(behind, " \t\r\n");
	return *behind == '=' || *behind == ':';
}

static void blank(char *from, const char *to)
{
	for (; from < to; from++)
		if (*from != '\n')
			*from = ' ';
}

static void end_duplicate(struct scan *s, const char *end)
{
	if (s->duplicate)
		blank(s->duplicate, end);
	s->duplicate = NULL;
}

static void on_key(struct scan *s, char *p, size_t len)
{
	end_duplicate(s, p);
	if (len >= KEY_SIZE)
		len = KEY_SIZE - 1;
	memcpy(s->key, p, len);
	s->key[len] = '\0';
	for (size_t i = 0; i < s->n_keys; i++)
		if (!strcmp(s->keys[i], s->key)) {
			s->found(s->user, s->line, s->key, "is set twice");
			s->duplicate = p;
			return;
		}
	/* more settings than there are options: the file will be refused for the unknown ones */
	if (s->n_keys < KEYS_MAX)
		strcpy(s->keys[s->n_keys++], s->key);
}

static char *scan_word(struct scan *s, char *p)
{
	size_t len = 1;

	while (isalnum((unsigned char)p[len]) || (p[len] && strchr("-_*", p[len])))
		len++;
	if (s->depth == 0 && is_key(p + len))
		on_key(s, p, len);
	return p + len;
}

static char *scan_number(struct scan *s, char *p)
{
	const bool hex = *p == '0' && (p[1] == 'x' || p[1] == 'X');
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(p, &end, hex ? 16 : 10);
	if (end == p)
		return p + 1;
	if (*end != '.' && *end != 'e' && *end != 'E' && *end != 'L' &&
	    (errno || n > (hex ? UINT_MAX : INT_MAX)))
		s->found(s->user, s->line, s->key, "does not fit 32 bits");
	/* skip the rest of a fraction, or of a word that libconfig will refuse */
	while (isalnum((unsigned char)*end) || *end == '.')
		end++;
	return end;
}

void config_scan(char *text, config_scan_fn *found, void *user)
{
	struct scan s = { .found = found, .user = user, .line = 1 };
	char *p = text;

	while (*p) {
		char *behind = text + (skip_comment(&s, p) - text);

		if (behind != p) {
			p = behind;
		} else if (*p == '"') {
			p = text + (skip_string(&s, p) - text);
		} else if (isalpha((unsigned char)*p) || *p == '*') {
			p = scan_word(&s, p);
		} else if (isdigit((unsigned char)*p)) {
			p = scan_number(&s, p);
		} else {
			s.line += *p == '\n';
			s.depth += strchr("{[(", *p) != NULL;
			s.depth -= strchr("}])", *p) != NULL;
			p++;
		}
	}
	end_duplicate(&s, p);
}
