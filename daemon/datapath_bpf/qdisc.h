/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qdisc.h - what hangs at an interface's tc hooks, asked of the kernel: libbpf attaches filters,
 * but cannot tell a clsact qdisc from an ingress one, nor whether anybody else uses it.
 */
#pragma once

enum qdisc_at_hooks {
	QDISC_NONE,
	QDISC_CLSACT,
	QDISC_INGRESS, /* accepts "egress" filters and runs them on ingress */
};

/* Which qdisc owns the hooks of the interface. Returns enum qdisc_at_hooks or -errno. */
int qdisc_at_hooks(unsigned int ifindex);

/* How many filters hang at both hooks, ours included. Returns the number or -errno. */
int qdisc_count_filters(unsigned int ifindex);
