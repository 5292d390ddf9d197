/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * attachments.h - keeps the datapath's hooks and the nft rules on the configured interfaces while
 * these come and go.
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
	struct rules *rules; /* NULL: the administrator installs the rules */
	struct attachment link[CONFIG_INTERFACES_MAX];
	size_t n;
};

/*
 * Attach the datapath to every interface of CFG that exists, tell it the translated sources, and
 * update the rules' set of interfaces. To be called at start, after a reload, and when
 * links_changed() returns 1.
 *
 * Returns 0, or -errno when an interface that exists could not be attached: then *RET_ERROR_LINK is
 * its name and *RET_ERROR says why (both valid until the next call). The other interfaces are
 * attached all the same.
 */
int attachments_update(struct attachments *a, const struct config *cfg, const char **ret_error_link,
		       const char **ret_error);

/* The names of all configured interfaces, existing or not. Returns their number. */
size_t attachments_names(const struct attachments *a, const char *names[CONFIG_INTERFACES_MAX]);
