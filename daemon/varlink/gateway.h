/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway.h - the varlink interface io.tsnatd.Gateway: status, statistics, listings and the reload.
 *
 * This folder knows varlink and the shape of the answers. The data comes from a gateway_source.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "core/counters.h"
#include "core/record.h"

struct gateway;

struct gateway_link {
	const char *name;
	unsigned int ifindex; /* 0: there is no such interface now */
	bool attached;	      /* the datapath's hooks are on it */
};

struct gateway_status {
	const char *version;
	const char *datapath; /* "bpf", "queue" */
	const char *decide;   /* "queue", "kernel" */
	const char *policy;   /* "repair", "unify" */
	const char *scope;    /* "destination", "tuple" */
	const char *rules;    /* "queue", "NFQUEUE", "none", "missing" */
	const char *mapping;  /* the source of inside tuples: "packet", "events", "none" */
	bool realtime;	      /* the workers run at real-time priority */
	uint64_t uptime_ms;
	uint32_t hold_s;
	uint32_t records_limit;
	const struct gateway_link *links;
	size_t n_links;
	const char *const *problems; /* a sentence each; none: all is well */
	size_t n_problems;
};

/* Called for each record. Another value than 0 ends the walk. */
typedef int gateway_connection_fn(void *user, const struct tuple *t, const struct record *r);

/* The records of one server address and port. */
struct gateway_destination {
	uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t port_be;
	uint64_t records; /* all */
	uint64_t shifted; /* those with a shift */
	uint64_t refused; /* those whose SYN the server refused */
};
/* Called for each destination. Another value than 0 ends the walk. */
typedef int gateway_destination_fn(void *user, const struct gateway_destination *d);

/* Called while a reload goes on, so that its caller learns the outcome. */
struct reload_listener {
	/* The configuration is invalid. Once for each problem, as FILE:LINE: KEY: WHY. */
	void (*problem)(void *user, const char *line);
	/* OPTION was changed, but keeps its old value until a restart. */
	void (*needs_restart)(void *user, const char *option);
	void *user;
};

/*
 * Functions that fetch the data. They are called from the main loop and must not block. USER is
 * that of gateway_new(). Those that return int return 0 or -errno, or the value with which FN ended
 * the walk.
 */
struct gateway_source {
	int (*statistics)(void *user, uint64_t ret[COUNTER_COUNT]);
	/* The strings and arrays of *RET stay valid until the next call. */
	int (*status)(void *user, struct gateway_status *ret);
	int (*each_connection)(void *user, gateway_connection_fn *fn, void *fn_user);
	int (*each_destination)(void *user, gateway_destination_fn *fn, void *fn_user);
	uint32_t (*now_ms)(void *user); /* boot clock; records are stamped with it */
	/* Write the nft rules to F as text for nft(8). */
	int (*rules)(void *user, FILE *f);
	/* -EINVAL: the configuration is not valid and the old one stays; LISTENER heard why. */
	int (*reload)(void *user, const struct reload_listener *listener);
};

/*
 * Listen on PATH, with mode 0666: Reload checks its caller itself. A socket that an earlier run
 * left behind is replaced. Returns 0 or -errno: -EADDRINUSE when another server answers on it.
 * SOURCE and USER must outlive the gateway.
 */
int gateway_new(struct gateway **ret, sd_event *event, const char *path,
		const struct gateway_source *source, void *user);
void gateway_free(struct gateway *g);
