/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ether.h - where the network header of an Ethernet frame starts.
 *
 * Freestanding like wire_parse.h, and fetches bytes by the same wire_load(). A VLAN tag that the
 * device strips is kept beside the packet, not in it; up to two tags in the packet are skipped.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/types.h>
#include "wire_parse.h"

/* Returns the offset, or -1 when the frame carries neither IPv4 nor IPv6. */
static inline int ether_l3_offset(const struct wire_src *src)
{
	__u32 off = ETH_HLEN;
	__u8 p[2];

	if (wire_load(src, off - 2, p, sizeof(p)) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		if (wire_get16(p) != ETH_P_8021Q && wire_get16(p) != ETH_P_8021AD)
			break;
		off += 4;
		if (wire_load(src, off - 2, p, sizeof(p)) < 0)
			return -1;
	}
	if (wire_get16(p) != ETH_P_IP && wire_get16(p) != ETH_P_IPV6)
		return -1;
	return (int)off;
}
