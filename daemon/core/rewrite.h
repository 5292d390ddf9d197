/* SPDX-License-Identifier: GPL-2.0-or-later */
/* rewrite.h - apply a connection's shift to the bytes of a segment. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "edits.h"

/*
 * Change all timestamp options of the segment at DATA, and its checksum. The checksum must be
 * complete: a partial one (CHECKSUM_PARTIAL) would come out wrong. A checksum that was wrong stays
 * wrong, so that the receiver still drops the segment.
 *
 * packet_parse() made PKT of these same LEN bytes. The caller knows
 * whether the connection may have a shift at all: decide_pass_reason() tells it of SYNs.
 *
 * Returns how many options were changed.
 */
int rewrite_shift(uint8_t *data, size_t len, const struct wire_packet *pkt, enum direction dir,
		  uint32_t shift);

/* Replace the checksum by one over all of the segment, which DATA has whole. */
void rewrite_complete_checksum(uint8_t *data, size_t len, const struct wire_packet *pkt);
