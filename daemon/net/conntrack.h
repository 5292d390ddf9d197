/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack.h - what the kernel's connection table knows: mappings as they are made, and whether a
 * connection still lives.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"

struct conntrack;

/* A translated TCP connection was confirmed. T is the tuple as the server sees it. */
typedef void conntrack_new_fn(void *user, const struct tuple *t, const struct inside *inside);

/* Open the socket for questions. Returns 0 or -errno. */
int conntrack_new(struct conntrack **ret);
void conntrack_free(struct conntrack *c);

/*
 * Subscribe to NEW events. Returns a descriptor to poll, owned by C, or -errno.
 */
int conntrack_subscribe(struct conntrack *c, conntrack_new_fn *fn, void *user);

/* Read events that wait, a bounded number. Returns 0; -ENOBUFS when events were lost; or -errno. */
int conntrack_process(struct conntrack *c);

/*
 * Ask for the connection that the server sees as T. Returns 1 and, when it isn't NULL, RET_INSIDE;
 * 0 when there is none; or -errno.
 */
int conntrack_lookup(struct conntrack *c, const struct tuple *t, struct inside *ret_inside);

/*
 * Is there a connection of this tuple, be it the server's view or, for records that are kept by it,
 * that from before NAT? 1, 0 or -errno.
 */
int conntrack_knows(struct conntrack *c, const struct tuple *t);
