// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "health.h"
#include "base/log.h"
#include "base/util.h"

#define SAMPLE_US 2000000
#define BLIND_SYNS 8		/* verdicts in two samples, while no SYN was seen to leave */
#define RULES_SETTLE_US 100000	/* a firewall's reload is a burst of transactions */
#define RULES_CHECK_US 10000000 /* for events that were lost or could not be subscribed to */

struct health {
	const struct health_ops *ops;
	void *user;
	sd_event_source *sample_timer, *rules_timer, *rules_event;
	struct mnl_socket *nl;

	uint64_t verdicts, seen; /* at the last sample */
	unsigned int blind_samples;
	bool blind;
	int error; /* the last one that was logged */
};

static int again_in(sd_event_source *timer, uint64_t usec)
{
	sd_event_source_set_time_relative(timer, usec);
	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static void judge(struct health *h, uint64_t verdicts, uint64_t seen)
{
	if (seen)
		h->blind_samples = 0;
	else if (verdicts >= BLIND_SYNS / 2)
		h->blind_samples++;
	if (!h->blind && h->blind_samples >= 2)
		log_warn("SYNs are queued, but the egress program sees none of them leave: "
			 "another tc program ends the chain before ours, or they leave by another "
			 "interface (tc filter show dev IFACE egress)");
	else if (h->blind && !h->blind_samples)
		log_notice("the egress program sees SYNs leave again");
	h->blind = h->blind_samples >= 2;
}

static int on_sample(sd_event_source *timer, uint64_t usec, void *user)
{
	struct health *h = user;
	uint64_t now[COUNTER_COUNT] = { 0 };

	(void)usec;
	if (h->ops->counters(h->user, now) == 0) {
		uint64_t seen = now[COUNTER_SYN_SEEN] + now[COUNTER_PASSED_NO_MAPPING];

		judge(h, now[COUNTER_VERDICTS] - h->verdicts, seen - h->seen);
		h->verdicts = now[COUNTER_VERDICTS];
		h->seen = seen;
	}
	return again_in(timer, SAMPLE_US);
}

static int on_rules_timer(sd_event_source *timer, uint64_t usec, void *user)
{
	struct health *h = user;
	int r = h->ops->restore_rules(h->user);

	(void)usec;
	if (r == 1)
		log_notice("the nft rules were gone and are back");
	else if (r < 0 && r != h->error)
		log_err("the nft rules cannot be checked or put back: %s", strerror(-r));
	h->error = r < 0 ? r : 0;
	return again_in(timer, RULES_CHECK_US);
}

static int on_ruleset_event(sd_event_source *s, int fd, uint32_t revents, void *user)
{
	struct health *h = user;
	char buf[8192];
	uint64_t due, now;

	(void)s;
	(void)revents;
	/* The contents do not matter: any event, and an overrun too, means a change. */
	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
	sd_event_now(sd_event_source_get_event(h->rules_timer), CLOCK_BOOTTIME, &now);
	/* Further events do not delay the check, or a ruleset that never rests would get none. */
	if (sd_event_source_get_time(h->rules_timer, &due) >= 0 && due <= now + RULES_SETTLE_US)
		return 0;
	return again_in(h->rules_timer, RULES_SETTLE_US);
}

static int watch_ruleset(struct health *h, sd_event *event)
{
	const int group = NFNLGRP_NFTABLES;

	h->nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!h->nl || mnl_socket_bind(h->nl, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_setsockopt(h->nl, NETLINK_ADD_MEMBERSHIP, (void *)&group, sizeof(group)) < 0)
		return -errno;
	return sd_event_add_io(event, &h->rules_event, mnl_socket_get_fd(h->nl), EPOLLIN,
			       on_ruleset_event, h);
}

static int add_timers(struct health *h, sd_event *event, bool watch_rules, bool watch_egress)
{
	int r;

	if (watch_egress) {
		r = sd_event_add_time_relative(event, &h->sample_timer, CLOCK_BOOTTIME, SAMPLE_US,
					       0, on_sample, h);
		if (r < 0)
			return r;
	}
	if (!watch_rules)
		return 0;
	return sd_event_add_time_relative(event, &h->rules_timer, CLOCK_BOOTTIME, RULES_CHECK_US, 0,
					  on_rules_timer, h);
}

int health_start(struct health **ret, sd_event *event, bool watch_rules, bool watch_egress,
		 const struct health_ops *ops, void *user)
{
	struct health *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->ops = ops;
	h->user = user;
	r = add_timers(h, event, watch_rules, watch_egress);
	if (r < 0) {
		health_free(h);
		return r;
	}
	if (watch_rules && watch_ruleset(h, event) < 0)
		log_notice("no events for nft rulesets: the rules are checked every %d s",
			   RULES_CHECK_US / 1000000);
	*ret = h;
	return 0;
}

void health_free(struct health *h)
{
	if (!h)
		return;
	sd_event_source_disable_unref(h->sample_timer);
	sd_event_source_disable_unref(h->rules_timer);
	sd_event_source_disable_unref(h->rules_event);
	if (h->nl)
		mnl_socket_close(h->nl);
	free(h);
}

bool health_egress_is_blind(const struct health *h)
{
	return h->blind;
}
