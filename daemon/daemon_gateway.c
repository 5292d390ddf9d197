// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * daemon_gateway.c - collects the answers of the varlink interface from the daemon's parts.
 */
#include <errno.h>
#include <string.h>

#include "core/siphash.h"
#include "daemon.h"
#include "varlink/gateway_names.h"
#include "base/util.h"

#define PROBLEMS_MAX 16
/* One more than a listing shows, so that the listing can say that there are more. */
#define DESTINATIONS_MAX (GATEWAY_DESTINATIONS_MAX + 1)

static int get_statistics(void *user, uint64_t ret[COUNTER_COUNT])
{
	struct daemon *d = user;

	memset(ret, 0, COUNTER_COUNT * sizeof(*ret));
	for (size_t i = 0; i < d->n_workers; i++) {
		queue_worker_counters(d->worker[i], ret);
		ret[COUNTER_GUARDIAN_VERDICTS] += atomic_load(&d->heartbeats->accepted[i]);
	}
	ret[COUNTER_EVENT_OVERRUNS] += d->event_overruns;
	return d->ops->counters(d->datapath, ret);
}

static const char *rules_state(const struct daemon *d)
{
	if (!d->rules)
		return "none";
	if (rules_present(d->rules) == 0)
		return "missing";
	return rules_get_kind(d->rules) == RULES_NFQUEUE ? "NFQUEUE" : "queue";
}

static void add_problem(const char **problems, size_t *n, const char *text)
{
	if (*n < PROBLEMS_MAX)
		problems[(*n)++] = text;
}

static bool all_realtime(const struct daemon *d)
{
	for (size_t i = 0; i < d->n_workers; i++)
		if (!queue_worker_is_realtime(d->worker[i]))
			return false;
	return d->n_workers > 0;
}

/*
 * The kernel is asked each time: somebody may have deleted our filters, and that event may still be
 * unread.
 */
static bool is_attached(const struct daemon *d, const struct attachment *a)
{
	const struct datapath_link link = {
		.ifindex = a->ifindex,
		.name = a->name,
		.has_ethernet = a->kind == LINK_ETHERNET,
	};

	return a->attached && d->ops->attached(d->datapath, &link) == 1;
}

static void find_problems(struct daemon *d, struct gateway_status *s, const char **problems)
{
	static char text[PROBLEMS_MAX][128];
	size_t n = 0;

	if (!d->attachments.n)
		add_problem(problems, &n,
			    "no interface: none is named and there is no default route");
	for (size_t i = 0; i < d->attachments.n && n < PROBLEMS_MAX; i++) {
		const struct attachment *a = &d->attachments.link[i];

		if (s->links[i].attached)
			continue;
		snprintf(text[n], sizeof(text[n]), "%s: %s", a->name,
			 a->ifindex ? "the programs are not attached"
				    : "there is no such interface now");
		add_problem(problems, &n, text[n]);
	}
	if (!strcmp(s->rules, "missing"))
		add_problem(problems, &n, "the nft rules are missing: SYNs are not queued");
	if (d->health && health_egress_is_blind(d->health))
		add_problem(problems, &n,
			    "the egress program sees no SYN leave although SYNs are queued: "
			    "another tc program ends the chain before ours");
	if (d->n_workers && !s->realtime)
		add_problem(problems, &n,
			    "no real-time priority: under load queued SYNs may clash");
	s->problems = problems;
	s->n_problems = n;
}

static int get_status(void *user, struct gateway_status *ret)
{
	static struct gateway_link links[CONFIG_INTERFACES_MAX];
	static const char *problems[PROBLEMS_MAX];
	struct daemon *d = user;

	for (size_t i = 0; i < d->attachments.n; i++)
		links[i] = (struct gateway_link){ .name = d->attachments.link[i].name,
						  .ifindex = d->attachments.link[i].ifindex,
						  .attached =
							  is_attached(d, &d->attachments.link[i]) };
	*ret = (struct gateway_status){
		.version = VERSION,
		.datapath = d->ops->name,
		.decide = config_decide_name(d->cfg.decide),
		.policy = config_policy_name(d->cfg.policy),
		.scope = config_scope_name(d->cfg.scope),
		.rules = rules_state(d),
		.mapping = d->n_workers && queue_worker_has_mapping(d->worker[0]) ? "packet"
			   : d->mappings_event					  ? "events"
										  : "none",
		.realtime = all_realtime(d),
		.uptime_ms = boot_ms() - d->started_ms,
		.hold_s = d->cfg.hold,
		.records_limit = d->cfg.records,
		.links = links,
		.n_links = d->attachments.n,
	};
	find_problems(d, ret, problems);
	return 0;
}

static int each_connection(void *user, gateway_connection_fn *fn, void *fn_user)
{
	struct daemon *d = user;

	return d->ops->each(d->datapath, fn, fn_user);
}

/*
 * The destinations of all records, in an open-addressed hash of fixed size. The hash is keyed
 * because inside hosts choose the destinations.
 */
struct destinations {
	struct gateway_destination d[DESTINATIONS_MAX * 2];
	size_t n;
	struct siphash_key key;
};

static struct gateway_destination *find_destination(struct destinations *all, const struct tuple *t)
{
	__u64 m[3] = { 0 }, h;

	memcpy(m, t->dst, 16);
	m[2] = t->dport_be;
	h = siphash(&all->key, m, ARRAY_SIZE(m));
	for (size_t i = 0; i < ARRAY_SIZE(all->d); i++) {
		struct gateway_destination *d = &all->d[(h + i) % ARRAY_SIZE(all->d)];

		if (d->records && !memcmp(d->addr, t->dst, 16) && d->port_be == t->dport_be)
			return d;
		if (d->records)
			continue;
		if (all->n == DESTINATIONS_MAX)
			return NULL; /* full: destinations of later records are left out */
		all->n++;
		memcpy(d->addr, t->dst, 16);
		d->port_be = t->dport_be;
		return d;
	}
	return NULL;
}

static int count_destination(void *user, const struct tuple *t, const struct record *r)
{
	struct gateway_destination *d = find_destination(user, t);

	if (!d)
		return 0;
	d->records++;
	d->shifted += r->shift != 0;
	d->refused += (r->state & RECORD_FLOOR) != 0;
	return 0;
}

static int each_destination(void *user, gateway_destination_fn *fn, void *fn_user)
{
	struct daemon *d = user;
	_cleanup_free_ struct destinations *all = calloc(1, sizeof(*all));
	int r;

	if (!all)
		return -ENOMEM;
	all->key = d->clock.key;
	r = d->ops->each(d->datapath, count_destination, all);
	if (r != 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(all->d); i++) {
		r = all->d[i].records ? fn(fn_user, &all->d[i]) : 0;
		if (r != 0)
			return r;
	}
	return 0;
}

/* If the installed rules differ from the printed ones, a comment in the text says how. */
static int print_rules(void *user, FILE *f)
{
	const char *names[CONFIG_INTERFACES_MAX];
	struct daemon *d = user;
	const struct rules_config cfg = daemon_rules_config(d);

	if (d->cfg.decide == CONFIG_DECIDE_KERNEL) {
		fputs("# decide = \"kernel\": no packet is queued, and there are no rules\n", f);
		return 0;
	}
	if (!d->rules)
		fputs("# rules = \"none\": not installed by tsnatd; without that option these "
		      "would be\n",
		      f);
	else if (rules_get_kind(d->rules) == RULES_NFQUEUE)
		fputs("# this kernel's nft has no queue expression: installed with the xtables "
		      "target NFQUEUE in its place\n",
		      f);
	rules_print(f, &cfg, names, attachments_names(&d->attachments, names));
	return 0;
}

static int reload(void *user, const struct reload_listener *listener)
{
	return daemon_reload(user, listener);
}

static uint32_t now_ms(void *user)
{
	(void)user;
	return (uint32_t)boot_ms();
}

const struct gateway_source daemon_gateway_source = {
	.statistics = get_statistics,
	.status = get_status,
	.each_connection = each_connection,
	.each_destination = each_destination,
	.now_ms = now_ms,
	.rules = print_rules,
	.reload = reload,
};
