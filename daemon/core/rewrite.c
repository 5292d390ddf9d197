// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "csum.h"
#include "rewrite.h"

#define TCP_CSUM 16 /* where the checksum is in the TCP header */

int rewrite_shift(uint8_t *data, size_t len, const struct wire_packet *pkt, enum direction dir,
		  uint32_t shift)
{
	uint8_t *tcp = data + pkt->tcp_off;
	uint16_t sum;
	int changed = 0;

	assert(pkt->tcp_off <= len && len - pkt->tcp_off >= 20u + pkt->opts_len);
	sum = wire_get16(tcp + TCP_CSUM);
	for (int k = 0; k < WIRE_TS_MAX; k++) {
		struct edit e;

		if (!edit_timestamp(pkt, k, dir, shift, &e))
			continue;
		wire_put32(tcp + e.off, e.to);
		sum = csum_replace32(sum, e.off, e.from, e.to);
		changed++;
	}
	if (changed) {
		tcp[TCP_CSUM] = (uint8_t)(sum >> 8);
		tcp[TCP_CSUM + 1] = (uint8_t)sum;
	}
	return changed;
}

/*
 * Add the N bytes at P to SUM, as 32-bit words. Folded to 16 bits, that is the one's complement sum
 * of the 16-bit words (RFC 1071, 2); the order of bytes does not matter to it.
 */
static uint64_t sum_bytes(const uint8_t *p, size_t n, uint64_t sum)
{
	uint32_t word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	if (n) {
		word = 0;
		memcpy(&word, p, n);
		sum += word;
	}
	return sum;
}

void rewrite_complete_checksum(uint8_t *data, size_t len, const struct wire_packet *pkt)
{
	const bool v4 = data[0] >> 4 == 4;
	const uint32_t tcp_len = (uint32_t)(len - pkt->tcp_off);
	uint8_t *tcp = data + pkt->tcp_off, tail[8] = { [7] = IPPROTO_TCP };
	uint64_t sum;
	uint16_t csum;

	assert(pkt->tcp_off <= len && tcp_len >= 20);
	wire_put32(tail, tcp_len);
	memset(tcp + TCP_CSUM, 0, 2);
	sum = sum_bytes(tail, sizeof(tail), 0);
	sum = sum_bytes(v4 ? data + 12 : data + 8, v4 ? 8 : 32, sum);
	sum = sum_bytes(tcp, tcp_len, sum);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	csum = (uint16_t)~sum;
	memcpy(tcp + TCP_CSUM, &csum, 2);
}
