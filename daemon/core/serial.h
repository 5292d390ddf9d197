/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * serial.h - comparisons of values that wrap: TCP timestamps and sequence numbers (RFC 1982), and
 * the 32-bit millisecond stamps of records.
 *
 * Freestanding: compiled into the daemon and into the BPF programs.
 */
#pragma once

#include <linux/types.h>

/* Is timestamp A strictly after B? Equal is not after: a server refuses an equal TSval, too. */
static inline int ts_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static inline __u32 ts_max(__u32 a, __u32 b)
{
	return ts_after(a, b) ? a : b;
}

/*
 * Milliseconds from THEN to NOW, both 32-bit stamps of the boot clock. A stamp from the future (two
 * processors that read the clock at the same time) counts as no time at all.
 */
static inline __u32 ms_elapsed(__u32 now_ms, __u32 then_ms)
{
	__s32 d = (__s32)(now_ms - then_ms);

	return d > 0 ? (__u32)d : 0;
}

/*
 * Milliseconds by which a stamp may be later than a time that was read before it. Between the two
 * readings a thread may be stopped: by a debugger, on a busy machine, on a virtual processor that
 * gets no time.
 */
#define MS_STOPPED 60000

/*
 * Have more than LIMIT_MS passed from THEN to NOW? A stamp about half the range away stands for
 * weeks of silence: it has expired.
 */
static inline int ms_expired(__u32 now_ms, __u32 then_ms, __u32 limit_ms)
{
	__s32 d = (__s32)(now_ms - then_ms);

	return d < -MS_STOPPED || d > (__s32)limit_ms;
}
