/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mapping.h - reads a connection's tuples before and after NAT from a conntrack entry.
 */
#pragma once

#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <stdbool.h>

#include "core/record.h"

/*
 * Read the inside tuple: the entry's original direction. Ports in network byte order. Returns 0, or
 * -EAFNOSUPPORT when the entry is not TCP over IPv4 or IPv6.
 */
int mapping_inside(const struct nf_conntrack *ct, struct inside *ret);

/*
 * Read the tuple as the server sees it: the entry's reply direction, reversed. Ports in network
 * byte order. Returns 0, or -EAFNOSUPPORT when it has no IPv4 or IPv6 addresses.
 */
int mapping_tuple(const struct nf_conntrack *ct, struct tuple *ret);

struct nlattr;
/*
 * Read the inside tuple from the entry nested in the netlink attribute ATTR (NFQA_CT) of a packet
 * of FAMILY (AF_INET, AF_INET6). RET_TRANSLATED: the source was translated. Returns 0, -ENOMEM,
 * -EBADMSG when ATTR holds no entry, or -EAFNOSUPPORT.
 */
int mapping_parse(const struct nlattr *attr, int family, struct inside *ret, bool *ret_translated);
