/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * links.h - the interfaces, their addresses and default routes, read by rtnetlink.
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

/* A snapshot. */
struct links {
	struct link *link;
	size_t n_link;
	struct link_address *address;
	size_t n_address;
};

/*
 * Read all links, addresses and default routes. Returns 0 or -errno: -EINTR when they changed while
 * they were read. RET is untouched on failure.
 */
int links_read(struct links *ret);
void links_free(struct links *l);

/* The link of this name, or NULL. */
const struct link *links_by_name(const struct links *l, const char *name);

/*
 * Open a socket that becomes readable when links, addresses or routes change, or when tc filters or
 * qdiscs are deleted, which may be ours. Returns the descriptor, owned by the caller, or -errno.
 */
int links_watch(void);

/*
 * Read all waiting events of the socket FD. Returns 1 when links_read() should be called again,
 * also when events were lost; 0 when not; or -errno.
 */
int links_changed(int fd);
