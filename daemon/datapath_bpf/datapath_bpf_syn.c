// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * datapath_bpf_syn.c - decide on a queued SYN, and leave the decision for the egress program.
 *
 * Some SYNs cannot be decided here: no translation is known, their options forbid a shift, the map
 * cannot be read. They get no proposal. The egress program decides on them, or lets them pass and
 * counts them.
 */
#include <bpf/bpf.h>
#include <errno.h>

#include "base/util.h"
#include "core/packet.h"
#include "datapath_bpf_parts.h"

static void set_clock(struct datapath *dp, const struct tuple *t, const struct tsclock *clock,
		      struct decide_input *in)
{
	struct destination_key k;
	struct destination d;
	bool known = false;

	destination_of(t, &k);
	if (clock->scope == SCOPE_DESTINATION)
		known = bpf_map_lookup_elem(dp->destinations_fd, &k, &d) == 0;
	decide_set_clock(in, clock, t, known ? &d : NULL);
}

static void propose(struct datapath *dp, const struct tuple *t, const struct decide_input *in,
		    uint32_t shift, const struct inside *inside)
{
	struct proposal p = { .isn = in->isn, .shift = shift, .at_ms = in->now_ms };

	if (inside)
		p.inside = *inside;
	/* on failure the egress program decides */
	bpf_map_update_elem(dp->proposals_fd, t, &p, BPF_ANY);
}

static void decide_syn(struct datapath *dp, const struct wire_packet *pkt,
		       const struct inside *inside)
{
	struct decide_settings set;
	struct decide_input in;
	struct decision d;
	struct record r;
	bool known;

	pthread_mutex_lock(&dp->lock);
	set = dp->settings;
	pthread_mutex_unlock(&dp->lock);
	in = decide_input_of(pkt, set.policy, set.hold_ms, (uint32_t)boot_ms());
	if (set.policy == POLICY_UNIFY)
		set_clock(dp, &pkt->tuple, &set.clock, &in);
	known = bpf_map_lookup_elem(dp->records_fd, &pkt->tuple, &r) == 0;
	if (!known && errno != ENOENT)
		return;
	d = decide(known ? &r : NULL, &in);
	if (d.kind == DECISION_RETRANSMIT)
		return; /* the record has its shift already */
	propose(dp, &pkt->tuple, &in, d.shift, inside);
}

void datapath_bpf_handle(struct datapath *dp, const struct datapath_packet *p,
			 struct datapath_verdict *ret)
{
	struct wire_packet pkt;

	ret->shared = true;
	if (p->untranslated || packet_parse(p->data, p->len, &pkt) != WIRE_TCP ||
	    !wire_is_syn(&pkt) || decide_pass_reason(&pkt) != PASS_NONE)
		return;
	decide_syn(dp, &pkt, p->inside);
}
