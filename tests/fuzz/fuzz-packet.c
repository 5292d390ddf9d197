// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes through the parser and the rewriter. Input: a byte of flags (1: inbound, 2: Ethernet,
 * 4: the checksum is made right first), the shift, the packet.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/packet.h"
#include "core/rewrite.h"
#include "../unit/core/packet-ethernet.h"

#define MUST(x)                           \
	do {                              \
		if (!(x))                 \
			__builtin_trap(); \
	} while (0)
#define PSEUDO 0x1a2b /* stands for the pseudo header, which does not change */

/* The ones' complement sum of the segment, the checksum included. */
static uint32_t sum_of(const uint8_t *tcp, size_t len)
{
	uint64_t sum = PSEUDO;

	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? tcp[i] : (uint64_t)tcp[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

static void put_checksum(uint8_t *tcp, size_t len)
{
	uint32_t sum;

	memset(tcp + 16, 0, 2);
	sum = ~sum_of(tcp, len);
	tcp[16] = (uint8_t)(sum >> 8);
	tcp[17] = (uint8_t)sum;
}

/* Is byte I of the TCP header one of the checksum, or of a field that DIR changes? */
static int may_change(const struct wire_packet *pkt, enum direction dir, size_t i)
{
	if (i == 16 || i == 17)
		return 1;
	for (int k = 0; k < pkt->ts_count; k++) {
		size_t at = 20 + (pkt->ts_at >> (8 * k) & 0xff) + (dir == DIRECTION_IN ? 4 : 0);

		if (i >= at && i < at + 4)
			return 1;
	}
	return 0;
}

typedef enum wire_status parse_fn(const uint8_t *data, size_t len, struct wire_packet *ret);

static void check(uint8_t *before, uint8_t *after, size_t len, parse_fn *parse,
		  const uint8_t *input)
{
	enum direction dir = input[0] & 1 ? DIRECTION_IN : DIRECTION_OUT;
	struct wire_packet pkt, again;
	size_t tcp, header;
	int changed;

	memcpy(before, input + 5, len);
	if (parse(before, len, &pkt) != WIRE_TCP)
		return;
	tcp = pkt.tcp_off;
	header = 20u + pkt.opts_len;
	MUST(tcp + header <= len && pkt.opts_len <= WIRE_OPTS_MAX && pkt.ts_count <= WIRE_TS_MAX);
	if (input[0] & 4)
		put_checksum(before + tcp, len - tcp);
	memcpy(after, before, len);

	changed = rewrite_shift(after, len, &pkt, dir, wire_get32(input + 1));
	MUST(changed >= 0 && changed <= pkt.ts_count && !changed == !memcmp(before, after, len));
	for (size_t i = 0; i < len; i++)
		MUST(before[i] == after[i] ||
		     (i >= tcp && i < tcp + header && may_change(&pkt, dir, i - tcp)));
	/* as right or as wrong as before */
	MUST(sum_of(before + tcp, len - tcp) % 0xffff == sum_of(after + tcp, len - tcp) % 0xffff);
	if (input[0] & 4) {
		memcpy(before, after, len);
		put_checksum(before + tcp, len - tcp);
		MUST(!memcmp(before, after, len));
	}
	MUST(parse(after, len, &again) == WIRE_TCP &&
	     !memcmp(&again.tuple, &pkt.tuple, sizeof(pkt.tuple)));
	MUST(again.ts_at == pkt.ts_at && again.seq == pkt.seq && again.flags == pkt.flags &&
	     again.bad_option == pkt.bad_option && again.auth_option == pkt.auth_option);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	uint8_t *before, *after;

	if (size < 5)
		return 0;
	/* of exactly the packet's length, so that a byte too far is seen */
	before = malloc(size > 5 ? size - 5 : 1);
	after = malloc(size > 5 ? size - 5 : 1);
	MUST(before && after);
	check(before, after, size - 5, input[0] & 2 ? packet_parse_ethernet : packet_parse, input);
	free(before);
	free(after);
	return 0;
}
