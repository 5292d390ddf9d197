/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway_listing.h - long answers: the lists of connections and of destinations.
 *
 * Records change while a slow reader reads. So a listing first copies all rows, then turns them
 * into answers as its reader takes them. The number of rows and the number of listings are bounded.
 */
#pragma once

#include "gateway.h"
#include "varlink.h"

#define GATEWAY_LISTINGS_MAX 4

struct gateway_listings {
	const struct gateway_source *source;
	void *source_user;
	unsigned int active;
};

/* Answer the call. LISTINGS must outlive it. CLOSED: include closed connections. */
void gateway_list_connections(struct gateway_listings *listings, struct varlink_call *call,
			      bool closed);
void gateway_list_destinations(struct gateway_listings *listings, struct varlink_call *call);

/* Answer with the error Unavailable. ERROR is a negative errno. */
void gateway_unavailable(struct varlink_call *call, int error);
