/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vectors.h - the packets of tests/vectors/segments.txt, which explains itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/counters.h"
#include "core/decide.h"
#include "core/edits.h"

#define VECTOR_BYTES 2048
#define VECTOR_NO_COUNTER COUNTER_COUNT

struct vector {
	char name[64];
	bool ether;
	enum direction dir;
	uint32_t shift;
	enum wire_status is;
	enum counter counter; /* or VECTOR_NO_COUNTER */
	size_t len;
	uint8_t packet[VECTOR_BYTES];
	uint8_t expect[VECTOR_BYTES];
};

/* The packet as it left a datapath. */
struct vector_result {
	enum wire_status is;
	struct wire_packet pkt; /* valid for WIRE_TCP */
	enum counter counter;
	int changed; /* timestamp options */
	uint8_t bytes[VECTOR_BYTES];
};

/*
 * Read the file that $VECTORS names, or tests/vectors/segments.txt. The array is the caller's to
 * free. A malformed file ends the program: there is nothing to test then.
 */
struct vector *vectors_load(size_t *ret_n);

/* V with an Ethernet header in front; RET may be V. */
void vector_wrap(const struct vector *v, struct vector *ret);

enum wire_status vector_parse(const struct vector *v, const uint8_t *data, size_t len,
			      struct wire_packet *ret);

/* Pass V's packet through the C code as the daemon would. */
void vector_apply(const struct vector *v, struct vector_result *ret);

/* Print name and bytes of a vector whose output is GOT. */
void vector_print_difference(const struct vector *v, const char *who, const uint8_t *got,
			     size_t len);
