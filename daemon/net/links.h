/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * links.h - interfaces and their addresses, by rtnetlink.
 */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum link_kind {
	LINK_ETHERNET,	  /* packets start with an Ethernet header */
	LINK_RAW,	  /* packets start with the network header: tun, PPP, WireGuard, tunnels */
	LINK_UNSUPPORTED, /* some other header */
};

struct link {
	unsigned int ifindex;
	char name[IFNAMSIZ];
	enum link_kind kind;
	bool default_route; /* a default route of IPv4 or IPv6 leaves by it */
};

struct link_address {
	unsigned int ifindex;
	uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d */
};

/* What the kernel said at one time. */
struct links {
	struct link *link;
	size_t n_link;
	struct link_address *address;
	size_t n_address;
};

/* Ask the kernel for all of it. Returns 0 or -errno; RET is untouched on failure. */
int links_read(struct links *ret);
void links_free(struct links *l);

/* The link of this name, or NULL. */
const struct link *links_by_name(const struct links *l, const char *name);

/*
 * A socket that becomes readable when links, addresses or default routes change, or filters and
 * qdiscs are deleted, which may have been ours. Returns the descriptor or -errno.
 */
int links_watch(void);

/*
 * Read the events that wait. Returns 1 when links should be read again (an overrun counts), 0 when
 * not, or -errno.
 */
int links_changed(int fd);
