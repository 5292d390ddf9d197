// SPDX-License-Identifier: GPL-2.0-or-later
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/packet.h"
#include "core/rewrite.h"
#include "packet-ethernet.h"
#include "vectors.h"

static const char *const counter_names[] = { COUNTERS(COUNTER_NAME) };
_Static_assert(sizeof(counter_names) / sizeof(counter_names[0]) == COUNTER_COUNT,
	       "a name per counter");

static enum counter counter_from_name(const char *name)
{
	for (unsigned int i = 0; i < COUNTER_COUNT; i++)
		if (!strcmp(name, counter_names[i]))
			return (enum counter)i;
	if (strcmp(name, "-"))
		errx(1, "no counter is called '%s'", name);
	return VECTOR_NO_COUNTER;
}

static size_t from_hex(const struct vector *v, const char *hex, uint8_t to[VECTOR_BYTES])
{
	size_t n = 0;

	if (!strcmp(hex, "-"))
		return 0;
	for (; *hex; hex += 2, n++) {
		unsigned int byte;

		if (n == VECTOR_BYTES || !hex[1] || sscanf(hex, "%2x", &byte) != 1)
			errx(1, "%s: no hex bytes, or too many", v->name);
		to[n] = (uint8_t)byte;
	}
	return n;
}

/* Returns 1 when the vector is whole. */
static int read_field(struct vector *v, const char *key, const char *value)
{
	if (!strcmp(key, "name")) {
		memset(v, 0, sizeof(*v));
		snprintf(v->name, sizeof(v->name), "%s", value);
	} else if (!strcmp(key, "link")) {
		v->ether = !strcmp(value, "ether");
	} else if (!strcmp(key, "dir")) {
		v->dir = !strcmp(value, "in") ? DIRECTION_IN : DIRECTION_OUT;
	} else if (!strcmp(key, "shift")) {
		v->shift = (uint32_t)strtoul(value, NULL, 16);
	} else if (!strcmp(key, "is")) {
		v->is = !strcmp(value, "tcp")	  ? WIRE_TCP
			: !strcmp(value, "other") ? WIRE_OTHER
						  : WIRE_BAD;
	} else if (!strcmp(key, "count")) {
		v->counter = counter_from_name(value);
	} else if (!strcmp(key, "packet")) {
		v->len = from_hex(v, value, v->packet);
	} else if (!strcmp(key, "expect")) {
		if (!strcmp(value, "unchanged"))
			memcpy(v->expect, v->packet, v->len);
		else if (from_hex(v, value, v->expect) != v->len)
			errx(1, "%s: packet and expected bytes differ in length", v->name);
		return 1;
	} else {
		errx(1, "%s: unknown key '%s'", v->name, key);
	}
	return 0;
}

struct vector *vectors_load(size_t *ret_n)
{
	const char *path = getenv("VECTORS");
	struct vector *all = NULL;
	char line[5 * VECTOR_BYTES], key[16];
	size_t n = 0, room = 0;
	int value;
	FILE *f;

	path = path ? path : "tests/vectors/segments.txt";
	f = fopen(path, "re");
	if (!f)
		err(1, "%s", path);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%15s %n", key, &value) != 1)
			errx(1, "%s: a line that says nothing", path);
		if (n == room) {
			room = room ? 2 * room : 256;
			all = realloc(all, room * sizeof(*all));
			if (!all)
				err(1, NULL);
		}
		n += (size_t)read_field(&all[n], key, line + value);
	}
	fclose(f);
	if (!n)
		errx(1, "%s: no vectors", path);
	*ret_n = n;
	return all;
}

void vector_wrap(const struct vector *v, struct vector *ret)
{
	uint8_t header[14] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00 };
	struct vector w = *v;

	if (v->len && v->packet[0] >> 4 == 6) {
		header[12] = 0x86;
		header[13] = 0xdd;
	}
	if (v->len + sizeof(header) > VECTOR_BYTES)
		errx(1, "%s: too long", v->name);
	memcpy(w.packet, header, sizeof(header));
	memcpy(w.packet + sizeof(header), v->packet, v->len);
	memcpy(w.expect, header, sizeof(header));
	memcpy(w.expect + sizeof(header), v->expect, v->len);
	w.len = v->len + sizeof(header);
	w.ether = true;
	*ret = w;
}

enum wire_status vector_parse(const struct vector *v, const uint8_t *data, size_t len,
			      struct wire_packet *ret)
{
	return v->ether ? packet_parse_ethernet(data, len, ret) : packet_parse(data, len, ret);
}

static enum counter counter_of_pass(enum pass_reason why)
{
	switch (why) {
	case PASS_NO_TIMESTAMP:
		return COUNTER_PASSED_NO_TIMESTAMP;
	case PASS_ZERO_TIMESTAMP:
		return COUNTER_PASSED_ZERO_TIMESTAMP;
	case PASS_AUTH_OPTION:
		return COUNTER_PASSED_AUTH_OPTION;
	case PASS_BAD_OPTION:
		return COUNTER_PASSED_BAD_OPTION;
	case PASS_NONE:
		break;
	}
	return VECTOR_NO_COUNTER;
}

void vector_apply(const struct vector *v, struct vector_result *ret)
{
	*ret = (struct vector_result){ .counter = VECTOR_NO_COUNTER };
	memcpy(ret->bytes, v->packet, v->len);
	ret->is = vector_parse(v, ret->bytes, v->len, &ret->pkt);
	if (ret->is == WIRE_BAD)
		ret->counter = COUNTER_PASSED_BAD_PACKET;
	if (ret->is != WIRE_TCP)
		return;
	if (v->dir == DIRECTION_OUT && wire_is_syn(&ret->pkt)) {
		enum pass_reason why = decide_pass_reason(&ret->pkt);

		if (why != PASS_NONE) {
			ret->counter = counter_of_pass(why);
			return;
		}
	}
	if (ret->pkt.bad_option)
		ret->counter = COUNTER_PASSED_BAD_OPTION;
	ret->changed = rewrite_shift(ret->bytes, v->len, &ret->pkt, v->dir, v->shift);
}

static void print_hex(const char *label, const uint8_t *p, size_t len)
{
	fprintf(stderr, "  %-7s", label);
	for (size_t i = 0; i < len; i++)
		fprintf(stderr, "%02x", p[i]);
	fputc('\n', stderr);
}

void vector_print_difference(const struct vector *v, const char *who, const uint8_t *got,
			     size_t len)
{
	fprintf(stderr, "%s, %s%s:\n", v->name, who, v->ether ? ", with Ethernet header" : "");
	print_hex("packet", v->packet, v->len);
	print_hex("expect", v->expect, v->len);
	print_hex("got", got, len);
}
