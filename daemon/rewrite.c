// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>

#include "core/csum.h"
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
