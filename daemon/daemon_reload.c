// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * daemon_reload.c - what the configuration means to a running daemon, at its start and when it is read again.
 */
#include <errno.h>
#include <string.h>

#include "daemon.h"
#include "log.h"
#include "util.h"

struct datapath_config daemon_datapath_config(const struct config *c, const struct tsclock *clock)
{
	return (struct datapath_config){
		.pin_dir = c->pin_dir,
		.runtime_dir = c->runtime_dir,
		.records = c->records,
		.hold_ms = c->hold * 1000,
		.policy = c->policy == CONFIG_UNIFY ? POLICY_UNIFY : POLICY_REPAIR,
		.clock = *clock,
		.foreign_rules = c->rules == CONFIG_RULES_NONE,
	};
}

void daemon_report_problem(void *user, const char *line)
{
	(void)user;
	log_err("%s", line);
}

int daemon_apply_policy(struct daemon *d)
{
	struct datapath_config cfg;

	d->clock.scope = d->cfg.scope == CONFIG_SCOPE_TUPLE ? SCOPE_TUPLE : SCOPE_DESTINATION;
	cfg = daemon_datapath_config(&d->cfg, &d->clock);
	atomic_store(&d->queue_policy.hold_ms, cfg.hold_ms);
	atomic_store(&d->queue_policy.policy, cfg.policy);
	log_set_level((int)d->cfg.log_level);
	if (d->sweeper)
		sweeper_set_hold(d->sweeper, cfg.hold_ms);
	if (d->ops->configure(d->datapath, &cfg, true) < 0) {
		log_err("the datapath did not take the policy");
		return -EIO;
	}
	return 0;
}

/* What a running daemon cannot change is named, and stays. */
static void keep_what_needs_restart(struct config *new, const struct config *old)
{
	if (new->datapath != old->datapath || new->decide != old->decide || new->rules != old->rules ||
	    new->queue_num != old->queue_num || new->queues != old->queues || new->records != old->records || new->mark_mask != old->mark_mask ||
	    strcmp(new->state_dir, old->state_dir) != 0 || strcmp(new->runtime_dir, old->runtime_dir) != 0 ||
	    strcmp(new->pin_dir, old->pin_dir) != 0)
		log_warn("reload: datapath, decide, rules, queues, marks, records and directories change with a restart only");
	new->datapath = old->datapath;
	new->decide = old->decide;
	new->rules = old->rules;
	new->queue_num = old->queue_num;
	new->queues = old->queues;
	new->records = old->records;
	new->mark_mask = old->mark_mask;
	memcpy(new->state_dir, old->state_dir, sizeof(new->state_dir));
	memcpy(new->runtime_dir, old->runtime_dir, sizeof(new->runtime_dir));
	memcpy(new->pin_dir, old->pin_dir, sizeof(new->pin_dir));
}

void daemon_reload(struct daemon *d)
{
	enum config_action action;
	struct config new;
	const char *link, *error;
	int r;

	if (config_load(&new, &action, d->argc, d->argv, daemon_report_problem, NULL) < 0) {
		log_err("reload: the configuration is not valid; the old one stays");
		return;
	}
	keep_what_needs_restart(&new, &d->cfg);
	d->cfg = new;
	daemon_apply_policy(d);
	r = attachments_update(&d->attachments, &d->cfg, &link, &error);
	if (r < 0)
		log_err("reload: %s: %s (%s)", link, error, strerror(-r));
	saver_kick(d->saver);
	log_info("reloaded");
}
