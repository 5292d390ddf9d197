/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packet-ethernet.h - parse a frame in memory from its Ethernet header on, as the BPF programs do.
 * The daemon never gets one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_src {
	const uint8_t *data;
	size_t len;
};

static int wire_load(const struct wire_src *src, __u32 off, void *to, __u32 len)
{
	if (off > src->len || len > src->len - off)
		return -1;
	memcpy(to, src->data + off, len);
	return 0;
}

#include "core/ether.h"
#include "core/wire_parse.h"

/* Like packet_parse(); RET's tcp_off counts from the Ethernet header. */
static inline enum wire_status packet_parse_ethernet(const uint8_t *data, size_t len,
						     struct wire_packet *ret)
{
	const struct wire_src src = { .data = data, .len = len };
	int off = ether_l3_offset(&src);

	return off < 0 ? WIRE_OTHER : wire_parse(&src, (__u32)off, ret);
}
