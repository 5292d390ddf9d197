// SPDX-License-Identifier: GPL-2.0-or-later
/* daemon_config.c - gives each part of the daemon its share of the configuration. */
#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon.h"

struct datapath_config daemon_datapath_config(const struct config *c)
{
	return (struct datapath_config){
		.pin_dir = c->pin_dir,
		.runtime_dir = c->runtime_dir,
		.records = c->records,
		.foreign_rules = c->rules == CONFIG_RULES_NONE,
	};
}

uint32_t daemon_count_queues(const struct config *c, const struct datapath_ops *ops)
{
	const uint32_t room = 65536 - c->queue_num;
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (c->queues)
		return c->queues;
	if (c->rules == CONFIG_RULES_NONE || ops->queues_segments || n < 1)
		return 1;
	if (n > CONFIG_QUEUES_MAX)
		n = CONFIG_QUEUES_MAX;
	return (uint32_t)n < room ? (uint32_t)n : room;
}

struct rules_config daemon_rules_config(const struct daemon *d)
{
	return (struct rules_config){
		.queue_num = (uint16_t)d->cfg.queue_num,
		.queues = (uint16_t)d->queues,
		.segments = d->ops->queues_segments,
		.mark_mask = d->cfg.mark_mask,
	};
}

int daemon_apply_policy(struct daemon *d, bool active)
{
	struct decide_settings set;

	d->clock.scope = d->cfg.scope;
	set = (struct decide_settings){
		.policy = d->cfg.policy,
		.hold_ms = d->cfg.hold * 1000,
		.clock = d->clock,
	};
	log_set_level((int)d->cfg.log_level);
	if (d->sweeper)
		sweeper_set_hold(d->sweeper, set.hold_ms);
	if (d->ops->configure(d->datapath, &set, active) < 0) {
		log_err("the datapath refused the policy");
		return -EIO;
	}
	return 0;
}
