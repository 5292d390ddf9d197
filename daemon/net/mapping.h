/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mapping.h - what a conntrack entry says about a connection, in our words.
 */
#pragma once

#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <stdbool.h>

#include "core/record.h"

/*
 * The entry's original direction. Returns 0, or -EAFNOSUPPORT when it is not TCP over IPv4 or IPv6.
 */
int mapping_inside(const struct nf_conntrack *ct, struct inside *ret);

/*
 * The entry's reply direction turned round: the connection as the server sees it. Returns 0 or
 * -EAFNOSUPPORT.
 */
int mapping_tuple(const struct nf_conntrack *ct, struct tuple *ret);

/*
 * Read the entry nested in the netlink attribute ATTR of a packet of FAMILY (AF_INET, AF_INET6).
 * Returns 0 or -errno; RET_TRANSLATED tells whether the source was translated.
 */
struct nlattr;
int mapping_parse(const struct nlattr *attr, int family, struct inside *ret, bool *ret_translated);
