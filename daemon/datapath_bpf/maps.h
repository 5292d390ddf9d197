/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * maps.h - keys and values of the maps that the daemon and the BPF programs share (besides
 * records).
 */
#pragma once

#include <linux/types.h>
#include "core/record.h"
#include "core/tsclock.h"

/* The one entry of the map "settings": what the daemon tells the programs. */
struct settings {
	__u32 active; /* 0: decide on no new SYN (the daemon was stopped); live shifts go on */
	__u32 policy; /* enum policy */
	__u32 hold_ms;
	__u32 reserved[5];
	struct tsclock clock; /* policy unify; the key included */
};

/*
 * Key of the prefix table "externals": which sources count as translated on which interface. The
 * bits of the interface's index come first, so a prefix is 32 bits longer than that of the address
 * alone.
 */
struct external_key {
	__u32 prefixlen; /* in bits, of what follows */
	__u32 ifindex_be;
	__u8 addr[16];
};

/* Value of the map "hooks", by interface index: what this instance did there. */
struct hook {
	__u32 made_qdisc; /* the clsact qdisc is ours to remove */
	__u32 reserved;
};

/*
 * A request to the program "control", which changes records where the daemon cannot: from user
 * space a map's value can only be replaced whole, and that would lose what the packet path wrote
 * meanwhile. It travels as the data of a BPF_PROG_TEST_RUN, behind an Ethernet header's worth of
 * padding.
 */
enum control_op {
	CONTROL_SWEEP,	/* remove the records of these tuples if they are still expired */
	CONTROL_INSIDE, /* note the inside tuple of this tuple's record */
};

#define CONTROL_PAD 16
#define CONTROL_KEYS 40 /* what fits into a page beside the skb's own needs */

struct control_head {
	__u8 pad[CONTROL_PAD];
	__u32 op;
	__u32 count;
	__u32 reserved[2];
};

struct control_key {
	struct tuple tuple;
	__u32 state;	/* CONTROL_SWEEP: what the decision to remove was based on */
	__u32 limit_ms; /* CONTROL_SWEEP: silence after which the record may go */
	struct inside inside;
};
