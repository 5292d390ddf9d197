/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qdisc.h - the qdisc and the filters at an interface's tc hooks. libbpf attaches filters, but
 * cannot tell a clsact qdisc from an ingress one, nor whether anybody else uses it.
 */
#pragma once

enum qdisc_at_hooks {
	QDISC_NONE,
	QDISC_CLSACT,
	QDISC_INGRESS, /* this one accepts "egress" filters, and runs them on ingress */
};

/* Which qdisc owns the hooks of the interface. Returns enum qdisc_at_hooks or -errno. */
int qdisc_at_hooks(unsigned int ifindex);

/* Returns the number of filters at both hooks, ours included, or -errno. */
int qdisc_count_filters(unsigned int ifindex);
