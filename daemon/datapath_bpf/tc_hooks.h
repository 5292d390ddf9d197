/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tc_hooks.h - our programs' place on an interface: both hooks of clsact, always at the same handle
 * and priority.
 *
 * HOOKS_FD is the map "hooks", which tells the clsact qdiscs that are ours to remove, or -1.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns the id of our program that is attached for egress, by whichever run, or 0. */
uint32_t tc_hooks_running(unsigned int ifindex);

/*
 * Attach the two programs, in the place of those of an earlier run. Returns 0, or -errno with
 * RET_ERROR set if there is more to say.
 */
int tc_hooks_attach(int hooks_fd, unsigned int ifindex, int ingress_fd, int egress_fd,
		    const char **ret_error);

/*
 * Take off all our programs, and the qdisc if it is ours and nobody else uses it. Returns 0 or
 * -errno.
 */
int tc_hooks_detach(int hooks_fd, unsigned int ifindex);

/* Are these very programs attached? */
bool tc_hooks_attached(unsigned int ifindex, int ingress_fd, int egress_fd);
