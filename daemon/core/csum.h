/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * csum.h - the Internet checksum when 32 bits of the data change (RFC 1624, equation 3).
 *
 * Freestanding: compiled into the daemon and into the BPF programs.
 */
#pragma once

#include <linux/types.h>

/*
 * The value to count for a 32-bit value at offset OFF of the TCP header. The checksum adds up
 * 16-bit words that start at even offsets. At an odd offset the value's bytes are in the other
 * halves of those words: it counts like the value turned by 8 bits.
 */
static inline __u32 csum_at(__u32 value, __u32 off)
{
	return off & 1 ? value << 24 | value >> 8 : value;
}

/*
 * The checksum SUM after the value FROM became TO at offset OFF of the TCP header. All are in host
 * order, as read from the wire in network order.
 */
static inline __u16 csum_replace32(__u16 sum, __u32 off, __u32 from, __u32 to)
{
	__u64 s = (__u16)~sum;

	from = ~csum_at(from, off);
	to = csum_at(to, off);
	s += (from >> 16) + (from & 0xffff) + (to >> 16) + (to & 0xffff);
	s = (s & 0xffff) + (s >> 16);
	s = (s & 0xffff) + (s >> 16);
	return (__u16)~s;
}
