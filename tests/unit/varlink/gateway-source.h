/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway-source.h - a gateway with made-up data, for the tests of the varlink interface and of
 * tsnatctl.
 */
#pragma once

#include <arpa/inet.h>
#include <json-c/json.h>

#include "varlink/gateway.h"
#include "varlink/gateway_names.h"
#include "varlink-peer.h"

#define NOW_MS 5000000u

struct fixture {
	struct peer_place place;
	sd_event *event;
	struct gateway *gateway;
	/* The source's data */
	uint64_t counters[COUNTER_COUNT];
	uint32_t connections, destinations;
	int error;
	const char *problem;
	uint32_t walked;		      /* connections that the last listing walked over */
	const char *bad_line, *needs_restart; /* of a reload; or NULL */
	unsigned int reloads;
};

/* The source */

static inline int source_statistics(void *user, uint64_t ret[COUNTER_COUNT])
{
	struct fixture *f = user;

	memcpy(ret, f->counters, sizeof(f->counters));
	return f->error;
}

static inline int source_status(void *user, struct gateway_status *ret)
{
	static const struct gateway_link links[] = { { "eth0", 2, true },
						     { "ppp0", 0, false },
						     { "we\xe9rd\n", 7, false } };
	struct fixture *f = user;

	*ret = (struct gateway_status){
		.version = "1.2.3",
		.datapath = "bpf",
		.decide = "queue",
		.policy = "repair",
		.scope = "destination",
		.rules = "NFQUEUE",
		.mapping = "events",
		.realtime = true,
		.uptime_ms = 90061000,
		.hold_s = 300,
		.records_limit = 262144,
		.links = links,
		.n_links = ARRAY_SIZE(links),
		.problems = &f->problem,
		.n_problems = f->problem ? 1 : 0,
	};
	return f->error;
}

static inline void set_ipv4(uint8_t address[16], uint32_t host_order)
{
	uint32_t be = htonl(host_order);

	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	memcpy(address + 12, &be, 4);
}

/* The first seven show all states and members. The rest are for tests with many connections. */
static inline void make_connection(uint32_t i, struct tuple *t, struct record *r)
{
	*r = (struct record){ .seen_ms = NOW_MS - i,
			      .shift = i,
			      .last = RECORD_LAST(1000 + i, NOW_MS - i) };
	*t = (struct tuple){ .sport_be = htons((uint16_t)(1024 + i)), .dport_be = htons(443) };
	set_ipv4(t->src, 0xc0000201); /* 192.0.2.1 */
	set_ipv4(t->dst, 0xc6336401); /* 198.51.100.1 */
	switch (i) {
	case 0:
		r->state = RECORD_NO_LAST;
		break;
	case 1:
		r->state = RECORD_ANSWERED;
		inet_pton(AF_INET6, "2001:db8::1", t->src);
		inet_pton(AF_INET6, "2001:db8:ffff::2", t->dst);
		inet_pton(AF_INET6, "fd00::3", r->inside.src);
		r->inside.sport_be = htons(5555);
		break;
	case 2:
		r->state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_LIVE |
			   5 * RECORD_GENERATION;
		r->shift = 0xfffffff0;
		set_ipv4(r->inside.src, 0x0a000001);
		r->inside.sport_be = htons(40000);
		break;
	case 3:
		r->state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT;
		break;
	case 4:
		r->state = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FIN_OUT | RECORD_FIN_IN;
		break;
	case 5:
		r->state = RECORD_RESET;
		break;
	case 6:
		r->state = RECORD_ESTABLISHED | RECORD_DEAD;
		break;
	}
}

static inline int source_each_connection(void *user, gateway_connection_fn *fn, void *fn_user)
{
	struct fixture *f = user;
	int r = 0;

	for (f->walked = 0; f->walked < f->connections && !r; f->walked++) {
		struct tuple t;
		struct record record;

		make_connection(f->walked, &t, &record);
		r = fn(fn_user, &t, &record);
	}
	return r ? r : f->error;
}

static inline int source_each_destination(void *user, gateway_destination_fn *fn, void *fn_user)
{
	struct fixture *f = user;
	int r = 0;

	for (uint32_t i = 0; i < f->destinations && !r; i++) {
		struct gateway_destination d = {
			.port_be = htons(443), .records = 10 + i, .shifted = i, .refused = 1
		};

		set_ipv4(d.addr, 0xc6336401 + i);
		r = fn(fn_user, &d);
	}
	return r ? r : f->error;
}

static inline uint32_t source_now_ms(void *user)
{
	(void)user;
	return NOW_MS;
}

static inline int source_rules(void *user, FILE *f)
{
	struct fixture *f_ = user;

	fputs("table ip tsnatd {\n\tset \"we\xe9rd\"\n}\n", f);
	return f_->error;
}

static inline int source_reload(void *user, const struct reload_listener *listener)
{
	struct fixture *f = user;

	f->reloads++;
	if (f->bad_line) {
		listener->problem(listener->user, f->bad_line);
		listener->problem(listener->user, "the second one");
		return -EINVAL;
	}
	if (f->needs_restart)
		listener->needs_restart(listener->user, f->needs_restart);
	return f->error;
}

static const struct gateway_source source = {
	.statistics = source_statistics,
	.status = source_status,
	.each_connection = source_each_connection,
	.each_destination = source_each_destination,
	.now_ms = source_now_ms,
	.rules = source_rules,
	.reload = source_reload,
};

static inline int gateway_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	peer_place_make(&f->place);
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		f->counters[i] = 1000 + i;
	f->counters[COUNTER_SHIFTS_STARTED] = 50;
	f->counters[COUNTER_SHIFTS_ENDED] = 20;
	f->counters[COUNTER_RECORDS_CREATED] = 70;
	f->counters[COUNTER_RECORDS_REMOVED] = 10;
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(gateway_new(&f->gateway, f->event, f->place.path, &source, f), 0);
	*state = f;
	return 0;
}

static inline int gateway_teardown(void **state)
{
	struct fixture *f = *state;

	gateway_free(f->gateway);
	sd_event_unref(f->event);
	peer_place_remove(&f->place);
	free(f);
	return 0;
}

#define LOWER_NAME(upper, lower, text) #lower,
static const char *const counter_names[] = { COUNTERS(COUNTER_NAME) };
static const char *const gauge_names[] = { GATEWAY_GAUGES(LOWER_NAME, LOWER_NAME) };

static inline unsigned int occurrences(const char *text, const char *what)
{
	unsigned int n = 0;

	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static inline int64_t number(struct json_object *o, const char *key)
{
	struct json_object *value = json_object_object_get(o, key);

	if (!json_object_is_type(value, json_type_int))
		fail_msg("no number %s", key);
	return json_object_get_int64(value);
}

static inline void expect_statistics(struct json_object *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(counter_names); i++) {
		int64_t expected = i == COUNTER_SHIFTS_STARTED	  ? 50
				   : i == COUNTER_SHIFTS_ENDED	  ? 20
				   : i == COUNTER_RECORDS_CREATED ? 70
				   : i == COUNTER_RECORDS_REMOVED ? 10
								  : 1000 + (int64_t)i;

		assert_int_equal(number(o, counter_names[i]), expected);
	}
	assert_int_equal(number(o, "connections_shifted"), 30);
	assert_int_equal(number(o, "records"), 60);
	assert_int_equal(json_object_object_length(o), COUNTER_COUNT + ARRAY_SIZE(gauge_names));
}
