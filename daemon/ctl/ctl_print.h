/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_print.h - tables: in aligned columns for people, separated by one space for programs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct column {
	const char *title; /* NULL in the first one: the table has no heading */
	bool right;	   /* numbers stand to the right */
};

struct table {
	const struct column *columns;
	size_t n_columns;
	char **cells; /* row by row */
	size_t n_cells, capacity;
};

void table_init(struct table *t, const struct column *columns, size_t n_columns);
/*
 * Append cells; each fills up the current row. NULL, for what is not known, becomes "-", control
 * characters '?'.
 */
void table_add(struct table *t, const char *cell);
void table_add_number(struct table *t, int64_t n);
void table_addf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Aligned with a heading, or plain without. */
void table_print(const struct table *t, FILE *f, bool aligned);
void table_free(struct table *t);

#define ENDPOINT_MAX 64
/* "192.0.2.1:80", "[2001:db8::1]:80" */
const char *format_endpoint(char buf[ENDPOINT_MAX], const char *address, int64_t port);

#define DURATION_MAX 48
/* "12.3 s", "4 min 5 s", "2 d 03:04:05" */
const char *format_duration(char buf[DURATION_MAX], int64_t ms);

/* What malloc() and the like returned; there is nothing tsnatctl can do without memory but exit. */
void *check_memory(void *p);
