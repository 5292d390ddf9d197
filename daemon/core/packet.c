// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "packet.h"

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

#include "wire_parse.h"

enum wire_status packet_parse(const uint8_t *data, size_t len, struct wire_packet *ret)
{
	const struct wire_src src = { .data = data, .len = len };

	return wire_parse(&src, 0, ret);
}

size_t packet_ip_length(const uint8_t *data, size_t len)
{
	size_t n = len;

	if (len >= 20 && data[0] >> 4 == 4)
		n = wire_get16(data + 2);
	else if (len >= 40 && data[0] >> 4 == 6)
		n = 40u + wire_get16(data + 4);
	/* a length of 0 stands for one that does not fit into the field */
	return n < len && n > 40 ? n : len;
}
