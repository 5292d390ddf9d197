/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl_print.h - tables: aligned with a heading for people, or one space between cells. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct column {
	const char *title; /* NULL in the first column: the table has no heading */
	bool right;	   /* align to the right, for numbers */
};

struct table {
	const struct column *columns;
	size_t n_columns;
	char **cells; /* row by row */
	size_t n_cells, capacity;
};

void table_init(struct table *t, const struct column *columns, size_t n_columns);
/*
 * Append a cell to the last row, or to a new one if that is full. NULL, a value that is not known,
 * becomes "-". Control characters become '?'.
 */
void table_add(struct table *t, const char *cell);
void table_add_number(struct table *t, int64_t n);
void table_addf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ALIGNED: with a heading and aligned columns. */
void table_print(const struct table *t, FILE *f, bool aligned);
void table_free(struct table *t);

#define ENDPOINT_MAX 64
/* "192.0.2.1:80", "[2001:db8::1]:80" */
const char *format_endpoint(char buf[ENDPOINT_MAX], const char *address, int64_t port);

#define DURATION_MAX 48
/* "12.3 s", "4 min 5 s", "2 d 03:04:05" */
const char *format_duration(char buf[DURATION_MAX], int64_t ms);

/* Returns P, the result of an allocation; exits if that is NULL. */
void *check_memory(void *p);
