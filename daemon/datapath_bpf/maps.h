/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * maps.h - keys and values of the maps that the daemon and the BPF programs share, besides records.
 */
#pragma once

#include <linux/types.h>
#include "core/record.h"
#include "core/tsclock.h"

/* The one entry of the map "settings": the daemon writes it, the programs read it. */
struct settings {
	/*
	 * 0: no new SYN is decided, since the daemon was stopped; open connections keep their shift
	 */
	__u32 active;
	__u32 policy; /* enum policy */
	__u32 hold_ms;
	__u32 reserved[5];
	struct tsclock clock; /* for policy unify, with its key */
};

/*
 * Key of the prefix map "externals": on this interface, this source counts as translated. The
 * interface's index comes first, so a prefix is 32 bits longer than that of the address alone.
 */
struct external_key {
	__u32 prefixlen; /* bits of the members that follow */
	__u32 ifindex_be;
	__u8 addr[16];
};

/* Value of the map "hooks", whose key is an interface's index. */
struct hook {
	__u32 made_qdisc; /* this instance made the clsact qdisc, and removes it */
	__u32 reserved;
};

/*
 * A request to the program "control". User space can only replace a map's value whole, and would
 * undo the writes of the packet path in between; so the program changes records for the daemon. The
 * request is the data of a BPF_PROG_TEST_RUN, behind padding in the place of an Ethernet header.
 */
enum control_op {
	CONTROL_SWEEP,	/* remove the records of these tuples if they are still expired */
	CONTROL_INSIDE, /* note the inside tuple of this tuple's record */
};

#define CONTROL_PAD 16
#define CONTROL_KEYS 40 /* they fit into a page, beside the needs of the skb */

struct control_head {
	__u8 pad[CONTROL_PAD];
	__u32 op;
	__u32 count;
	__u32 reserved[2];
};

struct control_key {
	struct tuple tuple;
	__u32 state;	/* CONTROL_SWEEP: the state by which the record was found to be expired */
	__u32 limit_ms; /* CONTROL_SWEEP: silence after which the record may go */
	struct inside inside;
};
