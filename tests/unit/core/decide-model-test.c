// SPDX-License-Identifier: GPL-2.0-or-later
/* The decision: a million operations against a server that never forgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decide-path.h"

#define TUPLES 64
#define OPERATIONS 1000000

enum server_state { SERVER_NOTHING, SERVER_SYN_RECV, SERVER_OPEN, SERVER_TIME_WAIT };

/* One tuple: the client that has it now, the gateway's record, and the server. */
struct world {
	struct path path;
	/* client */
	uint32_t offset, hz, isn;
	uint32_t shift; /* of its connection, as the first SYN had it */
	bool has_client, answered;
	uint32_t sent;	    /* the highest TSval of this connection that left */
	uint32_t syn_tsval; /* of the last SYN, as the client sent it, and when */
	uint64_t syn_at;
	bool spoke; /* after the SYN-ACK */
	bool bare;  /* its SYN had no timestamp, or TSval 0 */
	/* server */
	enum server_state server;
	uint32_t last, server_isn;
	bool blank; /* it knows no TSval of the connection yet, and takes any */
	/* does the gateway know all that the server can hold? */
	bool covered;
};

static struct {
	unsigned long syns, shifted, retransmitted, copies, refused, closed, wild, swept, bare;
} total;

static uint64_t clock_ms; /* does not wrap; the gateway sees 32 bits of it */

static uint32_t now32(void)
{
	return (uint32_t)clock_ms;
}

static uint32_t random32(void)
{
	return (uint32_t)random() << 16 ^ (uint32_t)random();
}

static uint32_t tsval_of(const struct world *w)
{
	uint32_t v = w->offset + (uint32_t)(clock_ms * w->hz / 1000);

	return v ? v : 1;
}

static bool within_hold(const struct world *w)
{
	return w->path.known && now32() - w->path.r.seen_ms <= HOLD;
}

/* An open connection with a shift counts as one, and each ends as often as it began. */
static void check_counted(const struct world *w)
{
	const uint64_t *of = w->path.counted.of;
	const struct record *r = &w->path.r;
	bool live = r->state & RECORD_LIVE;

	assert_int_equal(of[COUNTER_SHIFTS_STARTED] - of[COUNTER_SHIFTS_ENDED], live);
	if (live)
		assert_int_not_equal(r->shift, 0);
	if (w->path.known && r->shift && record_is_open(r))
		assert_true(live);
}

/* The record's floor is never below the server's last TSval, as long as the gateway can know. */
static void check_covered(const struct world *w)
{
	const struct record *r = &w->path.r;
	uint32_t floor = RECORD_LAST_TSVAL(r->last);

	if (!w->covered || !w->path.known || w->server == SERVER_NOTHING || w->blank)
		return;
	if (r->state & RECORD_NO_LAST) {
		assert_true(r->state & RECORD_FLOOR || decide_has_base(r));
		floor = r->state & RECORD_FLOOR ? r->floor : floor;
	}
	if (r->state & RECORD_FLOOR && ts_after(r->floor, floor))
		floor = r->floor;
	if (decide_has_base(r) && ts_after(r->base, floor))
		floor = r->base;
	assert_false(ts_after(w->last, floor));
}

/* Linux's rule, without its exceptions for sequence numbers. */
static bool server_refuses(const struct world *w, uint32_t isn, uint32_t tsval)
{
	if (w->server == SERVER_SYN_RECV && w->server_isn == isn)
		return false; /* the same SYN again */
	return w->server != SERVER_NOTHING && !w->blank && (int32_t)(w->last - tsval) >= 0;
}

/* The challenge ACK may get lost; the server holds on. */
static void server_challenges(struct world *w)
{
	total.refused++;
	if (!(random() % 8))
		return;
	refuse(&w->path, w->last, now32());
	w->covered |= (w->path.r.state & RECORD_FLOOR) != 0;
	/*
	 * Limit of the record: the floor that a SYN without TSval learns replaces the base, and a
	 * next SYN that is above `last`, by up to half the range, can be below that floor.
	 */
	if (w->bare && w->path.r.state & RECORD_FLOOR &&
	    ts_after(RECORD_LAST_TSVAL(w->path.r.last), w->path.r.floor))
		w->covered = false;
}

static void server_answers(struct world *w)
{
	w->server = SERVER_SYN_RECV;
	w->server_isn = w->isn;
	if (random() % 8) {
		answer(&w->path, now32());
		w->answered = true;
	}
}

static void syn_arrives(struct world *w, uint32_t tsval, bool must_pass)
{
	if (server_refuses(w, w->isn, tsval)) {
		assert_false(must_pass);
		server_challenges(w);
		return;
	}
	w->last = (int32_t)(tsval - w->last) > 0 || !w->covered || w->blank ? tsval : w->last;
	w->covered = true;
	w->blank = false;
	server_answers(w);
}

/*
 * Limit of the record: a tuple's first SYN that is sent again moves `last`, and there is no base.
 * If the copy is lost, a clock that is above it by nearly half the range lies below what the server
 * has.
 */
static bool is_between(const struct world *w, uint32_t tsval)
{
	const struct record *r = &w->path.r;
	const uint32_t answers = RECORD_ANSWERED | RECORD_ESTABLISHED | RECORD_FLOOR;

	return w->path.known && !(r->state & (RECORD_BASE | answers)) &&
	       RECORD_LAST_TSVAL(r->last) != r->syn_tsval &&
	       ts_after(tsval, RECORD_LAST_TSVAL(r->last)) && !ts_after(tsval, w->last);
}

static void send_syn(struct world *w, bool again)
{
	bool held = within_hold(w), refused = w->path.r.state & (RECORD_FLOOR | RECORD_RESET);
	bool must_pass;
	uint32_t tsval = tsval_of(w);
	struct left l;

	if (!held && w->server != SERVER_NOTHING)
		w->covered = false;
	/*
	 * A SYN that is sent again keeps its shift. If its own clock has meanwhile gone half the
	 * range beyond what the server may have, as one of 1 MHz can, nobody can help.
	 */
	if (again && decide_has_base(&w->path.r) &&
	    (uint64_t)(w->sent - w->path.r.base) + (tsval - w->syn_tsval) >= 1u << 31)
		w->covered = false;
	if (!again && is_between(w, tsval))
		w->covered = false;
	must_pass = w->covered;
	l = syn(&w->path, w->isn, tsval, now32());
	total.syns++;
	total.shifted += l.shift != 0;
	if (again && !refused) {
		/* constant from the first SYN on, unless a challenge ACK told better */
		assert_int_equal(l.shift, w->shift);
		total.retransmitted++;
	}
	if (again && w->answered)
		assert_int_equal(l.shift, w->shift);
	if (!again || !w->answered)
		w->answered = false;
	w->shift = l.shift;
	w->sent = l.tsval;
	w->syn_tsval = tsval;
	w->syn_at = clock_ms;
	w->spoke = w->bare = false;
	if (random() % 8)
		syn_arrives(w, l.tsval, must_pass);
}

/*
 * A SYN that must leave untouched, as it has no timestamp, or TSval 0. The server judges it by its
 * sequence number. A server that takes it knows no TSval of the tuple any more.
 */
static void send_bare_syn(struct world *w)
{
	bool held = within_hold(w), zero = random() % 2;

	if (!held && w->server != SERVER_NOTHING)
		w->covered = false;
	/*
	 * Limit of the record: after TSval 0 only the base counts. The SYN before, if it was never
	 * answered, may have reached the server all the same.
	 */
	if (zero && decide_has_base(&w->path.r))
		w->covered = false;
	pass_syn(&w->path, w->isn, zero, now32());
	total.bare++;
	w->shift = 0;
	w->sent = tsval_of(w);
	w->answered = w->spoke = false;
	w->bare = true;
	if (!(random() % 8))
		return;
	if (w->server != SERVER_NOTHING && !w->blank && random() % 2) {
		server_challenges(w);
		return;
	}
	w->blank = true;
	server_answers(w);
}

/* A SYN that the handshake overtook on its way to the gateway. */
static void send_copy(struct world *w)
{
	struct left l = syn(&w->path, w->isn, w->syn_tsval, now32());

	assert_int_equal(l.kind, DECISION_RETRANSMIT);
	assert_int_equal(l.shift, w->shift);
	total.copies++;
}

/* Another host, or the same one again, gets the tuple. */
static void new_client(struct world *w)
{
	static const uint32_t rates[] = { 2, 10, 100, 250, 1000, 1000, 1000, 1000000 };

	if (!w->has_client || random() % 4) {
		w->hz = rates[random() % 8];
		w->offset = random32();
	}
	/*
	 * One in sixteen hosts has no random numbers. Two such hosts in a row on one tuple are told
	 * apart by the first one's segments after its SYN was answered; if it sent none, the
	 * server cannot tell them apart either.
	 */
	w->isn = random() % 16 ? random32() : 6510;
	if (w->isn == w->path.r.isn && !(w->path.r.state & RECORD_ESTABLISHED))
		w->isn = random32();
	w->has_client = true;
	/* the server's connection with the last client is over, in whatever way; it remembers */
	if (w->server == SERVER_OPEN || w->server == SERVER_SYN_RECV)
		w->server = SERVER_TIME_WAIT;
	if (w->path.known && !(random() % 16))
		send_bare_syn(w);
	else
		send_syn(w, false);
}

static void client_sends(struct world *w, bool reliably)
{
	uint32_t tsval = tsval_of(w), left;

	if (!w->answered)
		return;
	left = segment(&w->path, tsval, now32());
	assert_int_equal(left - tsval, w->shift);
	assert_false(ts_after(w->sent, left));
	w->sent = left;
	w->spoke = true;
	/* one in eight is lost behind the gateway */
	if (reliably || random() % 8) {
		w->server = SERVER_OPEN;
		if (w->path.no_timestamps)
			return;
		/* PAWS: an open connection takes nothing older */
		if (!w->blank)
			assert_true((int32_t)(left - w->last) >= 0);
		w->last = left;
		w->blank = false;
	}
}

static void client_closes(struct world *w)
{
	if (!w->answered)
		return;
	/* no TIME_WAIT before the client's FIN is there */
	client_sends(w, true);
	fins(&w->path, now32());
	if (w->server == SERVER_OPEN)
		w->server = SERVER_TIME_WAIT;
	w->answered = false;
	w->has_client = false;
	total.closed++;
}

/*
 * A segment that no sane clock made: the server drops it, the record must not follow. Between the
 * SYN-ACK and the client's first segment the gateway would take it for that segment.
 * The first TSval after a SYN that had none is not judged.
 */
static void inject(struct world *w)
{
	uint64_t before = w->path.r.last;
	uint64_t bound = (uint64_t)(now32() - RECORD_LAST_MS(before)) * 1063 + 2000000;
	uint64_t ahead = bound + 1 + (uint64_t)random() % 1000000000;

	if (!w->path.known || ahead > 0x7fffffff || (w->answered && !w->spoke) ||
	    w->path.no_timestamps || w->path.r.state & RECORD_NO_LAST)
		return;
	segment(&w->path, RECORD_LAST_TSVAL(before) + (uint32_t)ahead - w->path.r.shift, now32());
	assert_true(w->path.r.last == before);
	total.wild++;
}

static void sweep(struct world *w)
{
	if (!w->path.known || now32() - w->path.r.seen_ms <= record_limit_ms(&w->path.r, HOLD))
		return;
	w->path = new_path();
	w->has_client = w->answered = false;
	total.swept++;
}

static void time_passes(void)
{
	long n = random() % 1000;

	if (n < 990)
		clock_ms += (uint64_t)random() % 40;
	else if (n < 999)
		clock_ms += (uint64_t)random() % 20000;
	else
		clock_ms += (uint64_t)random() % (HOLD + 60000);
}

static void operation(struct world *w)
{
	switch (random() % 16) {
	case 0 ... 4:
		/* the NAT gives a tuple away when its connection is over, or was never answered */
		if (!w->answered)
			new_client(w);
		break;
	case 5 ... 7:
		/* nobody sends a SYN again after so long */
		if (!w->has_client || w->bare || !within_hold(w))
			break;
		if (w->spoke && clock_ms - w->syn_at < 60000)
			send_copy(w);
		else if (!w->spoke)
			send_syn(w, true);
		break;
	case 8 ... 11:
		client_sends(w, false);
		break;
	case 12 ... 13:
		client_closes(w);
		break;
	case 14:
		inject(w);
		break;
	case 15:
		sweep(w);
		break;
	}
	check_covered(w);
	check_counted(w);
}

static void test_million_operations(void **state)
{
	static struct world worlds[TUPLES];

	(void)state;
	srandom(1323);
	clock_ms = 0xffffffffu - 200000; /* the boot clock's 32 bits wrap soon */
	for (int i = 0; i < TUPLES; i++)
		worlds[i].path = new_path();
	for (int n = 0; n < OPERATIONS; n++) {
		time_passes();
		operation(&worlds[random() % TUPLES]);
	}
	print_message(
		"%lu SYNs: %lu shifted, %lu retransmitted, %lu refused (unknown to the gateway); "
		"%lu late copies, %lu connections closed, %lu wild segments, %lu records swept, "
		"%lu SYNs without TSval, %llu s\n",
		total.syns, total.shifted, total.retransmitted, total.refused, total.copies,
		total.closed, total.wild, total.swept, total.bare,
		(unsigned long long)(clock_ms / 1000));
	assert_true(total.syns > 100000 && total.shifted > 50000 && total.retransmitted > 30000 &&
		    total.copies > 10000);
	assert_true(total.closed > 50000 && total.wild > 10000 && total.swept > 100 &&
		    total.refused > 100 && total.bare > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_million_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
