/* SPDX-License-Identifier: GPL-2.0-or-later */
/* packet.h - parse packets in memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/*
 * Read the packet of LEN bytes at DATA, which starts with its network header. DATA may be
 * shorter than the packet was, as in a queue with a small copy range: then the packet counts as cut
 * off there.
 *
 * RET is valid for WIRE_TCP only.
 */
enum wire_status packet_parse(const uint8_t *data, size_t len, struct wire_packet *ret);

/* Bytes of the packet by its IP header, at most LEN: padding behind it does not count. */
size_t packet_ip_length(const uint8_t *data, size_t len);
