/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * gateway_listing.h - the answers that can be long: connections and destinations, at the reader's
 * pace.
 *
 * What is listed changes while a slow reader reads. So a listing is a compact copy, made at once
 * and turned into answers piece by piece. Its size and the number of listings at a time are
 * bounded.
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

/* Answer the call. LISTINGS must outlive it. CLOSED: with the connections that are over. */
void gateway_list_connections(struct gateway_listings *listings, struct varlink_call *call,
			      bool closed);
void gateway_list_destinations(struct gateway_listings *listings, struct varlink_call *call);

/* The answer of a method that could not find out, by a negative errno. */
void gateway_unavailable(struct varlink_call *call, int error);
