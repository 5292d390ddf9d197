/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * conntrack.h - questions to the kernel's conntrack: new mappings, and whether a connection still
 * exists.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/record.h"

struct conntrack;

/* Called when conntrack confirmed a translated TCP connection. T is the tuple after NAT. */
typedef void conntrack_new_fn(void *user, const struct tuple *t, const struct inside *inside);

/*
 * Open a socket for questions. A question waits at most a second for its answer. Returns 0 or
 * -errno.
 */
int conntrack_new(struct conntrack **ret);
void conntrack_free(struct conntrack *c);

/* Subscribe to NEW events. Returns a descriptor to poll, owned by C, or -errno. */
int conntrack_subscribe(struct conntrack *c, conntrack_new_fn *fn, void *user);

/*
 * Read a bounded number of waiting events, and call FN for translated TCP connections. Returns 0;
 * -ENOBUFS when events were lost; or another -errno.
 */
int conntrack_process(struct conntrack *c);

/*
 * Ask for the connection whose tuple after NAT is T. Returns 1, and the inside tuple if RET_INSIDE
 * is not NULL; 0 when there is no such connection; or -errno.
 */
int conntrack_lookup(struct conntrack *c, const struct tuple *t, struct inside *ret_inside);

/*
 * Is there a connection whose tuple after NAT, or before NAT, is T? The latter because records are
 * kept by the inside tuple where the administrator's rules queue before NAT. Returns 1, 0 or
 * -errno.
 */
int conntrack_knows(struct conntrack *c, const struct tuple *t);
