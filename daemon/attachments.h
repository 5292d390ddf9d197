/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * attachments.h - which interfaces are ours now, and keeping the datapath's hooks and the rules on
 * them.
 */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "core/datapath.h"
#include "net/links.h"
#include "rules/rules.h"

struct attachment {
	char name[IFNAMSIZ];
	unsigned int ifindex; /* 0: there is no such interface now */
	enum link_kind kind;
	bool attached;
};

struct attachments {
	const struct datapath_ops *ops;
	struct datapath *datapath;
	struct rules *rules; /* NULL: the administrator's */
	struct attachment link[CONFIG_INTERFACES_MAX];
	size_t n;
};

/*
 * Make the world as CFG wants it: hooks on every wanted interface that exists, the translated
 * sources known to the datapath, the rules' interface set. To be called at start, after a reload,
 * and whenever links_changed() says so.
 *
 * Returns 0, or -errno when an interface that exists could not be attached: then *RET_ERROR_LINK is
 * its name and *RET_ERROR says why (both valid until the next call). The other interfaces are
 * attached all the same.
 */
int attachments_update(struct attachments *a, const struct config *cfg, const char **ret_error_link,
		       const char **ret_error);

/*
 * The names of all wanted interfaces. Returns how many; NAMES has room for CONFIG_INTERFACES_MAX.
 */
size_t attachments_names(const struct attachments *a, const char *names[CONFIG_INTERFACES_MAX]);
