/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * counters.h - every counter, once: its name in the statistics, and what it counts.
 *
 * Freestanding: the BPF programs count by index into a per-CPU array, the daemon by index into its
 * own. The numbers are an interface between versions: a pinned map and a file of records that an
 * earlier version made go on counting. So a new counter gets the next number at the end, and no
 * number ever changes or is used again.
 */
#pragma once

#include <linux/types.h>

#define COUNTERS(X)                                                                               \
	X(0, SYN_SEEN, syn_seen, "outbound SYNs of translated connections")                       \
	X(1, SYN_SHIFTED, syn_shifted, "SYNs that left with another TSval than they came with")   \
	X(2, SYN_PASSED, syn_passed, "SYNs that left unchanged, whatever the reason")             \
	X(3, SYN_RETRANSMITTED, syn_retransmitted,                                                \
	  "SYNs that were retransmissions and kept their shift")                                  \
	X(4, CHALLENGE_ACKS, challenge_acks, "answers that refused a SYN")                        \
	X(5, DECIDED_AT_EGRESS, decided_at_egress, "SYNs decided by the egress program")          \
	X(6, CLASHES, clashes, "SYNs whose tuple held the decision for another queued SYN")       \
	X(7, VERDICTS, verdicts, "queued packets that got their verdict")                         \
	X(8, QUEUE_OVERRUNS, queue_overruns, "times the queue's socket buffer was full")          \
	X(9, QUEUE_DROPPED, queue_dropped,                                                        \
	  "SYNs that found the queue full and passed undecided by the daemon")                    \
	X(10, VERDICTS_LATE, verdicts_late, "verdicts for packets that were gone from the queue") \
	X(11, GUARDIAN_VERDICTS, guardian_verdicts,                                               \
	  "queued packets accepted by the guardian while the daemon hung")                        \
	X(12, EVENT_OVERRUNS, event_overruns,                                                     \
	  "times conntrack events were lost and mappings asked for")                              \
	X(13, TABLE_FULL, table_full, "SYNs without a record because the table is full")          \
	X(14, PASSED_NO_TIMESTAMP, passed_no_timestamp, "SYNs without timestamps")                \
	X(15, PASSED_ZERO_TIMESTAMP, passed_zero_timestamp, "SYNs with TSval 0")                  \
	X(16, PASSED_AUTH_OPTION, passed_auth_option, "SYNs signed by MD5 or TCP-AO")             \
	X(17, PASSED_BAD_OPTION, passed_bad_option, "packets with malformed TCP options")         \
	X(18, PASSED_NO_MAPPING, passed_no_mapping, "SYNs that no NAT translated")                \
	X(19, PASSED_BAD_PACKET, passed_bad_packet, "packets with impossible headers")            \
	X(20, SEGMENTS_SHIFTED_OUT, segments_shifted_out,                                         \
	  "outbound segments whose TSval was shifted")                                            \
	X(21, SEGMENTS_SHIFTED_IN, segments_shifted_in,                                           \
	  "inbound segments whose TSecr was shifted back")                                        \
	X(22, WILD_TSVALS, wild_tsvals, "TSvals too far ahead of their clock to be believed")     \
	X(23, RECORDS_CREATED, records_created, "records made")                                   \
	X(24, RECORDS_REMOVED, records_removed, "records removed by the sweeper")                 \
	X(25, SHIFTS_STARTED, shifts_started, "connections that became shifted")                  \
	X(26, SHIFTS_ENDED, shifts_ended, "shifted connections that ended")                       \
	X(27, REWRITE_FAILED, rewrite_failed, "segments that could not be rewritten")             \
	X(28, SEGMENTS_UNKNOWN, segments_unknown,                                                 \
	  "queued segments of shifted connections without a record")                              \
	X(29, SEGMENTS_DROPPED, segments_dropped,                                                 \
	  "queued segments that found the queue full: TCP sends them again")                      \
	X(30, SEGMENTS_OLD, segments_old,                                                         \
	  "queued segments of a connection whose tuple another one had by then")                  \
	X(31, MARKS_RESTORED, marks_restored,                                                     \
	  "segments of shifted connections that conntrack had forgotten")

/* An entry of a table of names, by number: const char *names[] = { COUNTERS(COUNTER_NAME) }; */
#define COUNTER_NAME(number, upper, lower, text) [number] = #lower,

#define COUNTER_ENUM(number, upper, lower, text) COUNTER_##upper = (number),
enum counter { COUNTERS(COUNTER_ENUM) COUNTER_COUNT };
#undef COUNTER_ENUM

#define COUNTER_ONE(number, upper, lower, text) +1
_Static_assert(COUNTER_COUNT == 0 COUNTERS(COUNTER_ONE),
	       "numbers have no gap, the last is highest");
#undef COUNTER_ONE
