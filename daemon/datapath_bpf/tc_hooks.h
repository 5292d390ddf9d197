/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tc_hooks.h - our programs' place on an interface: both hooks of clsact, always at the same handle
 * and priority.
 *
 * A part of the bpf datapath, as programs.h is. HOOKS_FD is the map "hooks", or -1: it tells which
 * clsact qdiscs are ours to remove.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The id of the program of ours, of whichever run, that is attached for egress; 0 when there is
 * none.
 */
uint32_t tc_hooks_running(unsigned int ifindex);

/*
 * Attach the two programs, in the place of an earlier run's. Returns 0, or -errno with RET_ERROR
 * set if there is more to say.
 */
int tc_hooks_attach(int hooks_fd, unsigned int ifindex, int ingress_fd, int egress_fd,
		    const char **ret_error);

/*
 * Take off whatever programs of ours are there, and the qdisc if it is ours and nobody else uses
 * it. Returns 0 or -errno.
 */
int tc_hooks_detach(int hooks_fd, unsigned int ifindex);

/* Are these very programs attached? */
bool tc_hooks_attached(unsigned int ifindex, int ingress_fd, int egress_fd);
