// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_queue.c - the datapath without BPF: shifts are applied to queued packets, which go back rewritten.
 *
 * Only shifted connections are queued whole (rules.c). Of the others it sees the SYN, the client's FIN, which has the last TSval that
 * counts, and a challenge ACK. No last word is spoken after conntrack's confirm here, so a SYN decided is the SYN that claims the record; see is_clash().
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "datapath.h"
#include "log.h"
#include "packet.h"
#include "records.h"
#include "rewrite.h"
#include "table.h"
#include "util.h"

#define DESTINATIONS (1u << 16)
#define EXTERNALS_MAX 4096
#define READ_AT_ONCE 256

/* Where a clash cannot be told from the queue: no NAT gives a tuple away again so soon after a SYN that nobody answered. */
#define CLASH_MS 20
/*
 * How far above all that left for a destination a SYN is whose tuple is not known. A connection runs ahead of the destination's clock by the
 * time that its SYN took from the client to here, and its last segment may still wait when another SYN gets its port.
 */
#define STEP_MS 20
/* How precisely a client's clock is known from its SYN alone. */
#define JITTER_MS 2

struct counting {
	struct records *records;
};

static void count(struct counting *to, __u32 which)
{
	records_count(to->records, which, 1);
}

#include "core/connection.h"

struct settings {
	enum policy policy;
	uint32_t hold_ms;
	struct tsclock clock;
};

struct datapath {
	struct records *records;
	struct counting counting;
	bool was_live;
	bool foreign_rules;
	uint32_t sweep_cursor;

	pthread_mutex_t lock; /* of the rest, which the main loop changes under running workers */
	struct settings settings;
	struct datapath_external externals[EXTERNALS_MAX];
	size_t n_externals;
	bool told_side; /* said on which side of NAT the SYNs are queued */
	bool told_refusal;
};

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
	pthread_mutex_destroy(&dp->lock);
	free(dp);
}

static int open_records(struct datapath *dp, const struct datapath_config *cfg, const char **ret_error)
{
	struct records_config rc = { .records = cfg->records, .destinations = DESTINATIONS };
	char path[160];
	int r = read_boot_id(rc.boot_id);

	if (r >= 0 && getrandom(rc.random, sizeof(rc.random), 0) != (ssize_t)sizeof(rc.random))
		r = -EIO;
	records_path(path, sizeof(path), cfg->runtime_dir);
	if (r >= 0)
		r = records_open(&dp->records, path, &rc);
	if (r == -EBADMSG)
		log_warn("%s is damaged or of another version: made anew", path);
	if (r < 0 && r != -EBADMSG) {
		*ret_error = "the file records.map in the runtime directory cannot be made or read";
		return r;
	}
	dp->was_live = r == 1;
	dp->counting.records = dp->records;
	if (records_limit(dp->records) != cfg->records)
		log_notice("the table keeps its bound of %u records until --cleanup: it holds live connections",
			   records_limit(dp->records));
	return 0;
}

static int queue_open_datapath(struct datapath **ret, const struct datapath_config *cfg, const char **ret_error)
{
	struct datapath *dp = calloc(1, sizeof(*dp));
	int r;

	if (!dp)
		return -ENOMEM;
	table_mutex_init(&dp->lock);
	dp->foreign_rules = cfg->foreign_rules;
	r = open_records(dp, cfg, ret_error);
	if (r < 0) {
		queue_close(dp);
		return r;
	}
	*ret = dp;
	return 0;
}

static int queue_live(struct datapath *dp, struct tsclock *ret_clock)
{
	if (!dp->was_live)
		return 0;
	*ret_clock = *records_clock(dp->records);
	return 1;
}

static int queue_configure(struct datapath *dp, const struct datapath_config *cfg, bool active)
{
	(void)active; /* without workers nothing is decided anyway */
	pthread_mutex_lock(&dp->lock);
	dp->settings = (struct settings){ .policy = cfg->policy, .hold_ms = cfg->hold_ms, .clock = cfg->clock };
	dp->told_refusal = false;
	pthread_mutex_unlock(&dp->lock);
	*records_clock(dp->records) = cfg->clock;
	return 0;
}

/* ---- links: the rules choose the packets ---- */

static int queue_attach(struct datapath *dp, const struct datapath_link *link, const char **ret_error)
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
	if (n > EXTERNALS_MAX)
		return -E2BIG;
	pthread_mutex_lock(&dp->lock);
	memcpy(dp->externals, ext, n * sizeof(*ext));
	dp->n_externals = n;
	pthread_mutex_unlock(&dp->lock);
	return 0;
}

static bool is_in(const uint8_t addr[16], const struct datapath_external *e)
{
	const unsigned int bytes = e->prefixlen / 8, bits = e->prefixlen % 8;

	if (memcmp(addr, e->addr, bytes) != 0)
		return false;
	return !bits || (addr[bytes] ^ e->addr[bytes]) >> (8 - bits) == 0;
}

/* Under the lock. Which interface has the address does not matter: it is one that a server sees. */
static bool is_external(const struct datapath *dp, const uint8_t addr[16])
{
	for (size_t i = 0; i < dp->n_externals; i++)
		if (is_in(addr, &dp->externals[i]))
			return true;
	return false;
}

/* ---- SYNs ---- */

/*
 * Rules of the administrator's may queue before NAT (iptables has nothing after it). Then the tuple is not known, and neither a record of the
 * external port nor a clock of it is to be had; only the clock of a destination does without. Under the lock.
 */
static bool may_decide(struct datapath *dp, const struct tuple *t)
{
	const struct settings *s = &dp->settings;
	bool before_nat;

	if (!dp->foreign_rules)
		return true;
	before_nat = !is_external(dp, t->src);
	if (!dp->told_side && before_nat)
		log_notice("SYNs are queued before NAT: records are kept by their inside tuple");
	dp->told_side = dp->told_side || before_nat;
	if (!before_nat || (s->policy == POLICY_UNIFY && s->clock.scope == SCOPE_DESTINATION))
		return true;
	if (!dp->told_refusal)
		log_err("SYNs are queued before NAT, where their external port is not known: %s cannot be done there, they pass unchanged; "
			"use --policy unify --scope destination, or nft rules after NAT (conf/tsnatd.nft)",
			s->policy == POLICY_REPAIR ? "policy repair" : "scope tuple");
	dp->told_refusal = true;
	return false;
}

/* Whose clock it is. Before NAT the external address is not known; rules before and after it must agree. */
static void clock_tuple(const struct datapath *dp, const struct tuple *t, struct tuple *ret)
{
	*ret = *t;
	if (dp->foreign_rules)
		memset(ret->src, 0, sizeof(ret->src));
}

/*
 * Was this SYN given its tuple before the record's SYN was confirmed? Waiting SYNs are not in the conntrack table, so NAT may give one tuple
 * to two. The one confirmed first has it, which is the one whose verdict went first; the other is dropped at its
 * confirm. So a SYN that waited when the record's verdict was sent leaves the record alone. A queue that was empty after that
 * verdict holds none of those any more.
 */
static bool is_clash(const struct records_ref *ref, uint32_t isn, const struct datapath_packet *p, uint32_t now)
{
	const struct record *r = ref->record;

	if (!r || r->isn == isn)
		return false;
	if (records_decided_ns(ref) >= p->empty_ns)
		return true;
	return !(r->state & (RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_RESET | RECORD_FLOOR | RECORD_FIN_OUT)) &&
	       ms_elapsed(now, r->syn_ms) < CLASH_MS;
}

/*
 * NAT that has no free port left gives one of a live connection, and conntrack drops the SYN at its confirm. As long as conntrack knows the
 * tuple, the record is that of the connection there.
 */
static bool is_taken(struct datapath *dp, const struct wire_packet *pkt, const struct datapath_packet *p)
{
	struct records_ref ref;
	bool open;

	records_lock(dp->records, &pkt->tuple, &ref);
	open = ref.record && ref.record->shift && ref.record->isn != pkt->seq && record_is_open(ref.record);
	records_unlock(&ref);
	return open && p->alive && p->alive(p->alive_user, &pkt->tuple) == 1;
}

static void count_clash(struct datapath *dp)
{
	count(&dp->counting, COUNTER_CLASHES);
	count(&dp->counting, COUNTER_SYN_PASSED);
}

/*
 * The segments of a connection without shift are not seen. Until its FIN was, its clock is taken to run at 1 kHz since the SYN, so that the
 * client's own next SYN is just above.
 */
static void extrapolate(struct record *r, uint32_t now)
{
	uint32_t elapsed = ms_elapsed(now, RECORD_LAST_MS(r->last));

	if (r->shift || r->state & (RECORD_NO_LAST | RECORD_FIN_OUT) || elapsed <= JITTER_MS)
		return;
	r->last = RECORD_LAST(RECORD_LAST_TSVAL(r->last) + elapsed - JITTER_MS, now - 2 * JITTER_MS);
}

/* The record of a SYN that was decided. Returns false when there is no room for one. */
static bool record_syn(struct datapath *dp, struct records_ref *ref, struct record *r, const struct wire_packet *pkt,
		       const struct inside *inside, uint32_t shift, uint32_t now, uint32_t hold_ms)
{
	struct record new;

	if (r) {
		if (connection_next(&dp->counting, r, pkt, inside, shift, now, hold_ms) < 0)
			return false;
		records_replace(ref, r);
		return true;
	}
	connection_first(&new, pkt, inside, shift, now);
	if (records_insert(ref, &pkt->tuple, &new) < 0) {
		count(&dp->counting, COUNTER_TABLE_FULL);
		return false;
	}
	count(&dp->counting, COUNTER_RECORDS_CREATED);
	if (shift)
		count(&dp->counting, COUNTER_SHIFTS_STARTED);
	return true;
}

/* Decide on it and write that down. Returns its shift. R is a copy of the record, or NULL; DEST may be NULL. */
static uint32_t decide_syn(struct datapath *dp, struct records_ref *ref, struct record *r, struct destination *dest,
			   const struct wire_packet *pkt, struct datapath_packet *p, const struct settings *set, uint32_t now)
{
	struct decide_input in = {
		.isn = pkt->seq, .tsval = pkt->tsval, .now_ms = now, .hold_ms = set->hold_ms, .policy = set->policy,
	};
	struct decision d;
	struct tuple t;

	clock_tuple(dp, &pkt->tuple, &t);
	if (set->policy == POLICY_UNIFY)
		decide_set_clock(&in, &set->clock, &t, dest);
	/* before NAT any SYN may get any external port, also one whose last segment is only now on its way */
	if (dp->foreign_rules && in.have_high && !ts_after(in.clock, in.high + STEP_MS - 1))
		in.clock = in.high + STEP_MS;
	if (r && !decide_is_retransmit(r, &in))
		extrapolate(r, now);
	d = decide(r, &in);
	if (d.kind == DECISION_RETRANSMIT) {
		connection_syn_again(&dp->counting, r, pkt, now);
		records_replace(ref, r);
	} else if (!record_syn(dp, ref, r, pkt, p->inside, d.shift, now, set->hold_ms)) {
		d.shift = 0;
	} else {
		records_set_decided_ns(dp->records, ref->slot, RECORDS_PENDING);
		p->has_ticket = true;
		p->ticket = ref->slot;
	}
	if (dest) {
		dest->syns++;
		dest->shifted += d.shift != 0;
		if (set->policy == POLICY_UNIFY && set->clock.scope == SCOPE_DESTINATION)
			destination_advance(dest, pkt->tsval + d.shift, now);
	}
	return d.shift;
}

/* With the tuple locked. Returns its shift, 0 when it leaves as it came. */
static uint32_t handle_syn(struct datapath *dp, struct records_ref *ref, const struct wire_packet *pkt,
			   struct datapath_packet *p, const struct settings *set, uint32_t now)
{
	enum pass_reason why = decide_pass_reason(pkt);
	struct record copy, *r = ref->record ? &copy : NULL;
	struct destination_key k;
	struct tuple t;
	uint32_t shift;

	if (is_clash(ref, pkt->seq, p, now)) {
		count_clash(dp);
		return 0;
	}
	if (r)
		copy = *ref->record;
	if (why != PASS_NONE) {
		connection_pass_syn(&dp->counting, r, pkt, why, now, set->hold_ms);
		if (r)
			records_replace(ref, r);
		return 0;
	}
	clock_tuple(dp, &pkt->tuple, &t);
	destination_of(&t, &k);
	shift = decide_syn(dp, ref, r, records_destination_lock(dp->records, &k, true), pkt, p, set, now);
	records_destination_unlock(dp->records);
	count(&dp->counting, shift ? COUNTER_SYN_SHIFTED : COUNTER_SYN_PASSED);
	return shift;
}

static int apply_syn(struct datapath *dp, const struct wire_packet *pkt, struct datapath_packet *p)
{
	uint32_t now = (uint32_t)boot_ms(), shift;
	struct settings set;
	struct records_ref ref;
	bool may;

	pthread_mutex_lock(&dp->lock);
	set = dp->settings;
	may = may_decide(dp, &pkt->tuple);
	pthread_mutex_unlock(&dp->lock);
	if (!may || (p->untranslated && !dp->foreign_rules) || p->cut) {
		count(&dp->counting, p->cut ? COUNTER_PASSED_BAD_PACKET : COUNTER_PASSED_NO_MAPPING);
		return 0;
	}
	count(&dp->counting, COUNTER_SYN_SEEN);
	if (is_taken(dp, pkt, p)) {
		count_clash(dp);
		return 0;
	}
	records_lock(dp->records, &pkt->tuple, &ref);
	shift = handle_syn(dp, &ref, pkt, p, &set, now);
	records_unlock(&ref);
	p->shifted = shift != 0;
	if (!rewrite_shift(p->data, p->len, pkt, DIRECTION_OUT, shift))
		return 0;
	count(&dp->counting, COUNTER_SEGMENTS_SHIFTED_OUT);
	return 1;
}

/* ---- segments ---- */

/* A client with a fast clock takes the destination's clock along. */
static void advance_destination(struct datapath *dp, const struct tuple *t, uint32_t tsval, uint32_t now)
{
	struct destination_key k;
	struct tuple whose;
	bool wanted;

	pthread_mutex_lock(&dp->lock);
	wanted = dp->settings.policy == POLICY_UNIFY && dp->settings.clock.scope == SCOPE_DESTINATION;
	pthread_mutex_unlock(&dp->lock);
	if (!wanted)
		return;
	clock_tuple(dp, t, &whose);
	destination_of(&whose, &k);
	destination_advance(records_destination_lock(dp->records, &k, false), tsval, now);
	records_destination_unlock(dp->records);
}

static void count_refusal(struct datapath *dp, const struct tuple *t)
{
	struct destination_key k;
	struct destination *d;
	struct tuple whose;

	clock_tuple(dp, t, &whose);
	destination_of(&whose, &k);
	d = records_destination_lock(dp->records, &k, false);
	if (d)
		d->refused++;
	records_destination_unlock(dp->records);
}

/* The end of a connection that was longer than its record, or began before us: what the server holds now. */
static void record_end(struct datapath *dp, struct records_ref *ref, const struct tuple *t, const struct wire_packet *pkt,
		       uint32_t now)
{
	const struct record new = {
		.last = RECORD_LAST(pkt->tsval, now),
		.state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN,
		.syn_tsval = pkt->tsval,
		.seen_ms = now,
		.syn_ms = now,
	};

	if (!pkt->ts_count || pkt->auth_option)
		return;
	if (records_insert(ref, t, &new) == 0)
		count(&dp->counting, COUNTER_RECORDS_CREATED);
}

/* With the tuple locked. Returns the connection's shift. */
static uint32_t handle_segment(struct datapath *dp, struct records_ref *ref, const struct tuple *t,
			       const struct wire_packet *pkt, const struct datapath_packet *p, uint32_t now)
{
	struct record *r = ref->record;
	uint32_t shift;

	if (!r && p->outbound && pkt->flags & WIRE_FIN) {
		record_end(dp, ref, t, pkt, now);
		return 0;
	}
	if (!r) {
		count(&dp->counting, COUNTER_SEGMENTS_UNKNOWN);
		return 0;
	}
	shift = r->shift;
	if (shift && p->unmarked)
		return 0; /* the record went over to another connection */
	if (!p->outbound) {
		if (connection_in(&dp->counting, r, pkt, now))
			count_refusal(dp, t);
	} else if (connection_out(&dp->counting, r, pkt, shift, now)) {
		advance_destination(dp, t, pkt->tsval + shift, now);
	}
	/* without a shift the server's FIN is not seen: the client's counts for both, or the record would be that of an open connection */
	if (!shift && p->outbound && pkt->flags & WIRE_FIN)
		state_change(r, RECORD_FIN_IN, 0);
	return shift;
}

static int apply_segment(struct datapath *dp, const struct wire_packet *pkt, struct datapath_packet *p)
{
	const enum direction dir = p->outbound ? DIRECTION_OUT : DIRECTION_IN;
	struct records_ref ref;
	uint32_t shift;
	struct tuple t;

	if (p->outbound)
		t = pkt->tuple;
	else
		tuple_reverse(&t, &pkt->tuple);
	records_lock(dp->records, &t, &ref);
	shift = handle_segment(dp, &ref, &t, pkt, p, (uint32_t)boot_ms());
	records_unlock(&ref);
	p->shifted = shift != 0;
	if (p->cut) {
		if (shift)
			count(&dp->counting, COUNTER_REWRITE_FAILED);
		return 0;
	}
	if (!rewrite_shift(p->data, p->len, pkt, dir, shift))
		return 0;
	count(&dp->counting, p->outbound ? COUNTER_SEGMENTS_SHIFTED_OUT : COUNTER_SEGMENTS_SHIFTED_IN);
	return 1;
}

static int queue_apply(struct datapath *dp, struct datapath_packet *p)
{
	struct wire_packet pkt;

	switch (packet_parse(p->data, p->len, &pkt)) {
	case WIRE_TCP:
		break;
	case WIRE_BAD:
		count(&dp->counting, COUNTER_PASSED_BAD_PACKET);
		return 0;
	case WIRE_OTHER:
		return 0;
	}
	p->syn = p->outbound && wire_is_syn(&pkt);
	return p->syn ? apply_syn(dp, &pkt, p) : apply_segment(dp, &pkt, p);
}

static void queue_decided(struct datapath *dp, const struct datapath_packet *p)
{
	records_set_decided_ns(dp->records, p->ticket, boot_ns());
}

/* ---- records ---- */

static int queue_lookup(struct datapath *dp, const struct tuple *t, struct record *ret)
{
	struct records_ref ref;
	int r = -ENOENT;

	records_lock(dp->records, t, &ref);
	if (ref.record) {
		*ret = *ref.record;
		r = 0;
	}
	records_unlock(&ref);
	return r;
}

/* A sweep under way. */
struct sweep {
	struct datapath *dp;
	uint32_t hold_ms;
	datapath_alive_fn *alive;
	void *user;
};

static bool sweep_remove(const struct sweep *s, const struct records_item *i, uint32_t limit_ms)
{
	struct counting *to = &s->dp->counting;
	struct records_ref ref;
	bool dead;

	records_lock(s->dp->records, &i->tuple, &ref);
	/* meanwhile it may have got a SYN; and the time is read here, for if we had stopped before, what came since would look long gone */
	dead = ref.record && ref.record->state == i->record.state &&
	       ms_expired((uint32_t)boot_ms(), ref.record->seen_ms, limit_ms);
	if (dead) {
		shift_ended(to, ref.record);
		records_delete(&ref);
		count(to, COUNTER_RECORDS_REMOVED);
	}
	records_unlock(&ref);
	return dead;
}

static bool sweep_one(const struct sweep *s, const struct records_item *i)
{
	const struct record *r = &i->record;
	uint32_t limit = record_limit_ms(r, s->hold_ms), now = (uint32_t)boot_ms();

	if (s->alive && r->shift && record_is_open(r) && ms_expired(now, r->seen_ms, s->hold_ms) &&
	    s->alive(s->user, &i->tuple) == 0)
		limit = s->hold_ms;
	return ms_expired(now, r->seen_ms, limit) && sweep_remove(s, i, limit);
}

static int queue_sweep(struct datapath *dp, uint32_t hold_ms, uint32_t max, datapath_alive_fn *alive,
		       void *user, struct datapath_sweep *ret)
{
	const struct sweep s = { .dp = dp, .hold_ms = hold_ms, .alive = alive, .user = user };
	struct records_item items[READ_AT_ONCE];

	*ret = (struct datapath_sweep){ 0 };
	while (ret->scanned < max && !ret->complete) {
		uint32_t n = records_read(dp->records, &dp->sweep_cursor, items, READ_AT_ONCE);

		for (uint32_t i = 0; i < n; i++)
			ret->removed += sweep_one(&s, &items[i]);
		ret->scanned += n;
		ret->complete = dp->sweep_cursor == 0;
	}
	return 0;
}

static int queue_each(struct datapath *dp, datapath_each_fn *fn, void *user)
{
	struct records_item items[READ_AT_ONCE];
	uint32_t cursor = 0;
	int r = 0;

	do {
		uint32_t n = records_read(dp->records, &cursor, items, READ_AT_ONCE);

		for (uint32_t i = 0; i < n && r == 0; i++)
			r = fn(user, &items[i].tuple, &items[i].record);
	} while (cursor && r == 0);
	return r;
}

static int queue_each_destination(struct datapath *dp, datapath_destination_fn *fn, void *user)
{
	struct destination_key k;
	struct destination d;
	int used, r = 0;

	for (uint32_t i = 0; r == 0 && (used = records_destination_at(dp->records, i, &k, &d)) >= 0; i++)
		if (used)
			r = fn(user, &k, &d);
	return r;
}

static int queue_restore(struct datapath *dp, const struct tuple *t, const struct record *r)
{
	struct records_ref ref;
	int ret;

	records_lock(dp->records, t, &ref);
	ret = ref.record ? -EEXIST : records_insert(&ref, t, r);
	records_unlock(&ref);
	if (ret < 0)
		return ret;
	/* the gauges are differences of counters: what comes back counts as made */
	count(&dp->counting, COUNTER_RECORDS_CREATED);
	if (r->state & RECORD_LIVE)
		count(&dp->counting, COUNTER_SHIFTS_STARTED);
	return 0;
}

static int queue_restore_destination(struct datapath *dp, const struct destination_key *k, const struct destination *d)
{
	struct destination *to = records_destination_lock(dp->records, k, true);
	int r = !to ? -ENOSPC : to->high ? -EEXIST : 0;

	if (r == 0)
		*to = *d;
	records_destination_unlock(dp->records);
	return r;
}

static int queue_set_inside(struct datapath *dp, const struct tuple *t, const struct inside *inside)
{
	struct records_ref ref;
	struct record r;
	int ret = -ENOENT;

	records_lock(dp->records, t, &ref);
	if (ref.record) {
		r = *ref.record;
		r.inside = *inside;
		records_replace(&ref, &r);
		ret = 0;
	}
	records_unlock(&ref);
	return ret;
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

const struct datapath_ops datapath_queue = {
	.name = "queue",
	.open = queue_open_datapath,
	.close = queue_close,
	.live = queue_live,
	.configure = queue_configure,
	.attach = queue_attach,
	.detach = queue_detach,
	.attached = queue_attached,
	.set_externals = queue_set_externals,
	.lookup = queue_lookup,
	.apply = queue_apply,
	.decided = queue_decided,
	.sweep = queue_sweep,
	.each = queue_each,
	.each_destination = queue_each_destination,
	.restore = queue_restore,
	.restore_destination = queue_restore_destination,
	.set_inside = queue_set_inside,
	.counters = queue_counters,
	.cleanup = queue_cleanup,
};
