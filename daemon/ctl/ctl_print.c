// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_print.h"

#define COLUMNS_MAX 16

void *check_memory(void *p)
{
	if (!p) {
		fputs("tsnatctl: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	return p;
}

void table_init(struct table *t, const struct column *columns, size_t n_columns)
{
	*t = (struct table){ .columns = columns, .n_columns = n_columns };
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
}

void table_add(struct table *t, const char *cell)
{
	char *copy = check_memory(strdup(cell ? cell : "-"));

	for (char *p = copy; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	if (t->n_cells == t->capacity) {
		t->capacity = t->capacity ? 2 * t->capacity : 64;
		t->cells = check_memory(reallocarray(t->cells, t->capacity, sizeof(*t->cells)));
	}
	t->cells[t->n_cells++] = copy;
}

void table_add_number(struct table *t, int64_t n)
{
	table_addf(t, "%" PRId64, n);
}

void table_addf(struct table *t, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_add(t, text);
}

static bool has_heading(const struct table *t)
{
	return t->columns[0].title != NULL;
}

static void measure(const struct table *t, size_t width[COLUMNS_MAX])
{
	for (size_t i = 0; i < t->n_columns; i++)
		width[i] = has_heading(t) ? strlen(t->columns[i].title) : 0;
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t length = strlen(t->cells[i]);

		if (length > width[i % t->n_columns])
			width[i % t->n_columns] = length;
	}
}

static void print_aligned(const struct table *t, FILE *f, const size_t *width, size_t column,
			  const char *cell)
{
	bool last = column + 1 == t->n_columns;

	if (t->columns[column].right)
		fprintf(f, "%*s%s", (int)width[column], cell, last ? "\n" : "  ");
	else if (last)
		fprintf(f, "%s\n", cell);
	else
		fprintf(f, "%-*s  ", (int)width[column], cell);
}

void table_print(const struct table *t, FILE *f, bool aligned)
{
	size_t width[COLUMNS_MAX] = { 0 };

	if (aligned) {
		measure(t, width);
		for (size_t i = 0; has_heading(t) && i < t->n_columns; i++)
			print_aligned(t, f, width, i, t->columns[i].title);
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t column = i % t->n_columns;

		if (aligned)
			print_aligned(t, f, width, column, t->cells[i]);
		else
			fprintf(f, "%s%c", t->cells[i], column + 1 == t->n_columns ? '\n' : ' ');
	}
}

const char *format_endpoint(char buf[ENDPOINT_MAX], const char *address, int64_t port)
{
	bool is_ipv6 = strchr(address, ':') != NULL;

	snprintf(buf, ENDPOINT_MAX, is_ipv6 ? "[%s]:%" PRId64 : "%s:%" PRId64, address, port);
	return buf;
}

const char *format_duration(char buf[DURATION_MAX], int64_t ms)
{
	int64_t s = ms / 1000;

	if (s < 60)
		snprintf(buf, DURATION_MAX, "%" PRId64 ".%d s", s, (int)(ms % 1000 / 100));
	else if (s < 3600)
		snprintf(buf, DURATION_MAX, "%d min %d s", (int)(s / 60), (int)(s % 60));
	else
		snprintf(buf, DURATION_MAX, "%" PRId64 " d %02d:%02d:%02d", s / 86400,
			 (int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60));
	return buf;
}
