// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "attachments.h"
#include "base/log.h"
#include "base/util.h"

#define EXTERNALS_MAX 4096

static void add_wanted(struct attachments *a, const struct links *l, const char *name)
{
	const struct link *k = links_by_name(l, name);
	struct attachment *t;

	if (a->n == CONFIG_INTERFACES_MAX)
		return;
	t = &a->link[a->n++];
	*t = (struct attachment){ .ifindex = k ? k->ifindex : 0,
				  .kind = k ? k->kind : LINK_UNSUPPORTED };
	strncpy(t->name, name, sizeof(t->name) - 1);
}

static void find_wanted(struct attachments *a, const struct config *cfg, const struct links *l)
{
	a->n = 0;
	for (size_t i = 0; i < cfg->n_interfaces; i++)
		add_wanted(a, l, cfg->interfaces[i]);
	if (cfg->n_interfaces)
		return;
	for (size_t i = 0; i < l->n_link; i++)
		if (l->link[i].default_route)
			add_wanted(a, l, l->link[i].name);
}

static bool was_attached(const struct attachments *before, unsigned int ifindex)
{
	for (size_t i = 0; i < before->n; i++)
		if (before->link[i].ifindex == ifindex)
			return before->link[i].attached;
	return false;
}

static int attach(struct attachments *a, struct attachment *t, const struct attachments *before,
		  const char **ret_error)
{
	const struct datapath_link link = {
		.ifindex = t->ifindex,
		.name = t->name,
		.has_ethernet = t->kind == LINK_ETHERNET,
	};
	int r;

	if (t->kind == LINK_UNSUPPORTED) {
		*ret_error = "its packets begin with a header that is neither Ethernet nor IP";
		return -EAFNOSUPPORT;
	}
	if (a->ops->attached(a->datapath, &link) == 1) {
		t->attached = true;
		return 0;
	}
	r = a->ops->attach(a->datapath, &link, ret_error);
	if (r < 0)
		return r;
	t->attached = true;
	if (was_attached(before, t->ifindex))
		log_warn("%s: somebody deleted the programs at tc; they are back", t->name);
	else
		log_info("%s: attached (index %u, %s)", t->name, t->ifindex,
			 link.has_ethernet ? "Ethernet" : "no link header");
	return 0;
}

static bool is_ours(const struct attachments *a, unsigned int ifindex)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->link[i].ifindex == ifindex)
			return true;
	return false;
}

static int set_externals(struct attachments *a, const struct config *cfg, const struct links *l)
{
	_cleanup_free_ struct datapath_external *ext = calloc(EXTERNALS_MAX, sizeof(*ext));
	size_t n = 0;

	if (!ext)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_address && n < EXTERNALS_MAX; i++) {
		if (!is_ours(a, l->address[i].ifindex))
			continue;
		ext[n] = (struct datapath_external){ .ifindex = l->address[i].ifindex,
						     .prefixlen = 128 };
		memcpy(ext[n++].addr, l->address[i].addr, 16);
	}
	for (size_t i = 0; i < a->n; i++) {
		for (size_t k = 0; k < cfg->n_external && a->link[i].ifindex && n < EXTERNALS_MAX;
		     k++) {
			ext[n] = (struct datapath_external){ .ifindex = a->link[i].ifindex,
							     .prefixlen = cfg->external[k].len };
			memcpy(ext[n++].addr, cfg->external[k].addr, 16);
		}
	}
	return a->ops->set_externals(a->datapath, ext, n);
}

size_t attachments_names(const struct attachments *a, const char *names[CONFIG_INTERFACES_MAX])
{
	for (size_t i = 0; i < a->n; i++)
		names[i] = a->link[i].name;
	return a->n;
}

int attachments_update(struct attachments *a, const struct config *cfg, const char **ret_error_link,
		       const char **ret_error)
{
	const char *names[CONFIG_INTERFACES_MAX];
	const struct attachments before = *a;
	struct links l = { 0 };
	int r, first = 0;

	*ret_error_link = "interfaces";
	*ret_error = "cannot be read from the kernel";
	r = links_read(&l);
	if (r < 0)
		return r;
	find_wanted(a, cfg, &l);
	/*
	 * Sources before hooks: the program would take a SYN from an unknown source for
	 * untranslated.
	 */
	r = set_externals(a, cfg, &l);
	if (r < 0) {
		*ret_error = "the addresses cannot be told to the datapath";
		first = r;
	}
	for (size_t i = 0; i < a->n; i++) {
		const char *error = "cannot be attached";

		if (!a->link[i].ifindex)
			continue; /* not there yet; an event tells when it comes */
		r = attach(a, &a->link[i], &before, &error);
		if (r < 0 && first == 0) {
			first = r;
			*ret_error_link = a->link[i].name;
			*ret_error = error;
		}
	}
	links_free(&l);
	if (a->rules && rules_get_kind(a->rules) != RULES_NONE)
		rules_set_interfaces(a->rules, names, attachments_names(a, names));
	return first;
}
