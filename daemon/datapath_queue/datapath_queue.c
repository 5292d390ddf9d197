// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_queue.c - the datapath without BPF: a queued packet goes back rewritten.
 *
 * Only the segments of shifted connections are queued (rules.c), whole. Of other connections it
 * sees the SYN, the client's FIN, which has the last TSval that counts, and a challenge ACK.
 * datapath_queue_syn.c decides on SYNs, datapath_queue_segment.c finds the shift of all other
 * segments.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "datapath_queue.h"
#include "datapath_queue_parts.h"
#include "base/log.h"
#include "core/packet.h"
#include "base/mutex.h"
#include "base/util.h"

#define DESTINATIONS (1u << 16)

static void records_path(char *buf, size_t size, const char *runtime_dir)
{
	snprintf(buf, size, "%s/records.map", runtime_dir);
}

static int read_boot_id(uint8_t ret[16])
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[40];
	size_t n = 0;

	if (!f || !fgets(text, sizeof(text), f))
		return -EIO;
	memset(ret, 0, 16);
	for (const char *p = text; *p && n < 32; p++) {
		unsigned int digit;

		if (sscanf((const char[]){ *p, '\0' }, "%x", &digit) == 1) {
			ret[n / 2] = (uint8_t)(ret[n / 2] << 4 | digit);
			n++;
		}
	}
	return n == 32 ? 0 : -EIO;
}

static void queue_close(struct datapath *dp)
{
	if (!dp)
		return;
	records_close(dp->records);
	free(dp->successions);
	pthread_mutex_destroy(&dp->order_lock);
	pthread_mutex_destroy(&dp->lock);
	free(dp);
}

static int open_records(struct datapath *dp, const struct datapath_config *cfg,
			const char **ret_error)
{
	struct records_config rc = { .records = cfg->records, .destinations = DESTINATIONS };
	char path[160];
	int r;

	*ret_error = "the file records.map in the runtime directory cannot be made or read";
	records_path(path, sizeof(path), cfg->runtime_dir);
	r = read_boot_id(rc.boot_id);
	if (r < 0)
		return r;
	if (getrandom(rc.random, sizeof(rc.random), 0) != (ssize_t)sizeof(rc.random))
		return -EIO;
	r = records_open(&dp->records, path, &rc);
	if (r == -EBADMSG)
		log_warn("%s is damaged or of another version: made anew", path);
	else if (r < 0)
		return r;
	dp->inherited = r == 1;
	dp->counting.records = dp->records;
	if (records_limit(dp->records) != cfg->records)
		log_notice("the table keeps its bound of %u records until --cleanup: it holds live "
			   "connections",
			   records_limit(dp->records));
	return 0;
}

static int queue_open_datapath(struct datapath **ret, const struct datapath_config *cfg,
			       const char **ret_error)
{
	struct datapath *dp = calloc(1, sizeof(*dp));
	int r;

	if (!dp)
		return -ENOMEM;
	mutex_init_inheriting(&dp->order_lock);
	mutex_init_inheriting(&dp->lock);
	dp->foreign_rules = cfg->foreign_rules;
	r = open_records(dp, cfg, ret_error);
	if (r >= 0) {
		dp->successions = calloc(records_limit(dp->records), sizeof(*dp->successions));
		r = dp->successions ? 0 : -ENOMEM;
	}
	if (r < 0) {
		queue_close(dp);
		return r;
	}
	*ret = dp;
	return 0;
}

static int queue_inherited(struct datapath *dp, struct tsclock *ret_clock)
{
	if (!dp->inherited)
		return 0;
	*ret_clock = *records_clock(dp->records);
	return 1;
}

static int queue_configure(struct datapath *dp, const struct decide_settings *set, bool active)
{
	(void)active; /* a stopped daemon has no threads at its queues: nothing is decided anyway */
	pthread_mutex_lock(&dp->lock);
	dp->settings = *set;
	dp->told_refusal = false;
	pthread_mutex_unlock(&dp->lock);
	*records_clock(dp->records) = set->clock;
	return 0;
}

/* ---- links: the rules choose the packets ---- */

static int queue_attach(struct datapath *dp, const struct datapath_link *link,
			const char **ret_error)
{
	(void)dp;
	(void)link;
	(void)ret_error;
	return 0;
}

static int queue_detach(struct datapath *dp, const struct datapath_link *link)
{
	(void)dp;
	(void)link;
	return 0;
}

static int queue_attached(struct datapath *dp, const struct datapath_link *link)
{
	(void)dp;
	(void)link;
	return 1;
}

static int queue_set_externals(struct datapath *dp, const struct datapath_external *ext, size_t n)
{
	if (n > DATAPATH_EXTERNALS_MAX)
		return -E2BIG;
	pthread_mutex_lock(&dp->lock);
	memcpy(dp->externals, ext, n * sizeof(*ext));
	dp->n_externals = n;
	pthread_mutex_unlock(&dp->lock);
	return 0;
}

/* Must the packet's verdict be sent before the next packet is decided? */
static bool keeps_order(const struct datapath_packet *p, const struct decide_settings *set)
{
	return p->unmarked && set->policy == POLICY_UNIFY;
}

static void queue_handle(struct datapath *dp, const struct datapath_packet *p,
			 struct datapath_verdict *ret)
{
	struct decide_settings set;
	struct wire_packet pkt;
	struct handled h = { .packet = p, .pkt = &pkt, .settings = &set, .verdict = ret };

	switch (packet_parse(p->data, p->len, &pkt)) {
	case WIRE_TCP:
		break;
	case WIRE_BAD:
		count(&dp->counting, COUNTER_PASSED_BAD_PACKET);
		return;
	case WIRE_OTHER:
		return;
	}
	pthread_mutex_lock(&dp->lock);
	set = dp->settings;
	pthread_mutex_unlock(&dp->lock);
	ret->in_order = keeps_order(p, &set);
	if (ret->in_order)
		pthread_mutex_lock(&dp->order_lock);
	h.now = (uint32_t)boot_ms();
	if (p->outbound && wire_is_syn(&pkt))
		datapath_queue_syn(dp, &h);
	else
		datapath_queue_segment(dp, &h);
}

static void queue_sent(struct datapath *dp, const struct datapath_verdict *v)
{
	if (v->has_slot)
		records_set_decided_ns(dp->records, v->slot, boot_ns());
	if (v->in_order)
		pthread_mutex_unlock(&dp->order_lock);
}

static int queue_counters(struct datapath *dp, uint64_t *counters)
{
	for (int i = 0; i < COUNTER_COUNT; i++)
		counters[i] += records_counter(dp->records, (enum counter)i);
	return 0;
}

static int queue_cleanup(const struct datapath_config *cfg)
{
	char path[160];

	records_path(path, sizeof(path), cfg->runtime_dir);
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

uint64_t datapath_queue_open_shifts(const struct datapath_config *cfg)
{
	uint64_t n[COUNTER_COUNT] = { 0 };
	struct datapath *dp;
	const char *error;
	char path[160];

	records_path(path, sizeof(path), cfg->runtime_dir);
	/* opening the table would make one */
	if (access(path, F_OK) < 0 || queue_open_datapath(&dp, cfg, &error) < 0)
		return 0;
	queue_counters(dp, n);
	queue_close(dp);
	return datapath_open_shifts(n);
}

const struct datapath_ops datapath_queue = {
	.name = "queue",
	.queues_segments = true,
	.open = queue_open_datapath,
	.close = queue_close,
	.inherited = queue_inherited,
	.configure = queue_configure,
	.attach = queue_attach,
	.detach = queue_detach,
	.attached = queue_attached,
	.set_externals = queue_set_externals,
	.handle = queue_handle,
	.sent = queue_sent,
	.sweep = datapath_queue_sweep,
	.each = datapath_queue_each,
	.each_destination = datapath_queue_each_destination,
	.restore = datapath_queue_restore,
	.restore_destination = datapath_queue_restore_destination,
	.set_inside = datapath_queue_set_inside,
	.counters = queue_counters,
	.cleanup = queue_cleanup,
};
