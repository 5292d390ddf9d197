/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * counters.h - every counter, once: its name in the statistics, and what it counts.
 *
 * Freestanding: the BPF programs count by index into a per-CPU array, the daemon by index into its
 * own.
 */
#pragma once

#include <linux/types.h>

#define COUNTERS(X)                                                                                \
	X(SYN_SEEN, syn_seen, "outbound SYNs of translated connections")                           \
	X(SYN_SHIFTED, syn_shifted, "SYNs that left with another TSval than they came with")       \
	X(SYN_PASSED, syn_passed, "SYNs that left unchanged, whatever the reason")                 \
	X(SYN_RETRANSMITTED, syn_retransmitted,                                                    \
	  "SYNs that were retransmissions and kept their shift")                                   \
	X(CHALLENGE_ACKS, challenge_acks, "answers that refused a SYN")                            \
	X(DECIDED_AT_EGRESS, decided_at_egress, "SYNs decided by the egress program")              \
	X(CLASHES, clashes, "SYNs whose tuple held the decision for another queued SYN")           \
	X(VERDICTS, verdicts, "queued packets that got their verdict")                             \
	X(QUEUE_OVERRUNS, queue_overruns, "times the queue's socket buffer was full")              \
	X(QUEUE_DROPPED, queue_dropped,                                                            \
	  "SYNs that found the queue full and passed undecided by the daemon")                     \
	X(VERDICTS_LATE, verdicts_late, "verdicts for packets that were gone from the queue")      \
	X(GUARDIAN_VERDICTS, guardian_verdicts,                                                    \
	  "queued packets accepted by the guardian while the daemon hung")                         \
	X(EVENT_OVERRUNS, event_overruns,                                                          \
	  "times conntrack events were lost and mappings asked for")                               \
	X(TABLE_FULL, table_full, "SYNs without a record because the table is full")               \
	X(PASSED_NO_TIMESTAMP, passed_no_timestamp, "SYNs without timestamps")                     \
	X(PASSED_ZERO_TIMESTAMP, passed_zero_timestamp, "SYNs with TSval 0")                       \
	X(PASSED_AUTH_OPTION, passed_auth_option, "SYNs signed by MD5 or TCP-AO")                  \
	X(PASSED_BAD_OPTION, passed_bad_option, "packets with malformed TCP options")              \
	X(PASSED_NO_MAPPING, passed_no_mapping, "SYNs that no NAT translated")                     \
	X(PASSED_BAD_PACKET, passed_bad_packet, "packets with impossible headers")                 \
	X(SEGMENTS_SHIFTED_OUT, segments_shifted_out, "outbound segments whose TSval was shifted") \
	X(SEGMENTS_SHIFTED_IN, segments_shifted_in,                                                \
	  "inbound segments whose TSecr was shifted back")                                         \
	X(WILD_TSVALS, wild_tsvals, "TSvals too far ahead of their clock to be believed")          \
	X(RECORDS_CREATED, records_created, "records made")                                        \
	X(RECORDS_REMOVED, records_removed, "records removed by the sweeper")                      \
	X(SHIFTS_STARTED, shifts_started, "connections that became shifted")                       \
	X(SHIFTS_ENDED, shifts_ended, "shifted connections that ended")                            \
	X(REWRITE_FAILED, rewrite_failed, "segments that could not be rewritten")                  \
	X(SEGMENTS_UNKNOWN, segments_unknown,                                                      \
	  "queued segments of shifted connections without a record")                               \
	X(SEGMENTS_DROPPED, segments_dropped,                                                      \
	  "queued segments that found the queue full: TCP sends them again")                       \
	X(SEGMENTS_OLD, segments_old,                                                              \
	  "queued segments of a connection whose tuple another one had by then")                   \
	X(MARKS_RESTORED, marks_restored,                                                          \
	  "segments of shifted connections that conntrack had forgotten")

#define COUNTER_ENUM(upper, lower, text) COUNTER_##upper,
enum counter { COUNTERS(COUNTER_ENUM) COUNTER_COUNT };
#undef COUNTER_ENUM
