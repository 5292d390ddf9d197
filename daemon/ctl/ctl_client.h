/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_client.h - tsnatctl's end of the varlink socket. Nothing waits longer than CTL_TIMEOUT_MS.
 */
#pragma once

#include <json-c/json.h>
#include <signal.h>
#include <stdbool.h>

#include "varlink/buffer.h"

#define CTL_TIMEOUT_MS 10000 /* to connect, and for each answer */

struct ctl_client {
	const char *path;
	int fd;
	struct buffer in;
	const sigset_t *wait_mask; /* blocked while waiting, and other signals end that; or NULL */
	char problem[512];	   /* after a failure: what to tell the user */
	char *error;		   /* the error that was the last answer, or NULL, ... */
	struct json_object *error_parameters; /* ... and its parameters */
};

/* All return 0 or -errno, and on failure set problem. */
int ctl_open(struct ctl_client *c, const char *path, const sigset_t *wait_mask);
void ctl_close(struct ctl_client *c);

/* Takes over PARAMETERS, or NULL for none. */
int ctl_send(struct ctl_client *c, const char *method, struct json_object *parameters, bool more);
/*
 * The parameters of the next answer. Returns 1 when more answers follow. An error as answer is
 * -EREMOTEIO.
 */
int ctl_receive(struct ctl_client *c, struct json_object **ret);

/* A method with one answer. */
int ctl_call(struct ctl_client *c, const char *method, struct json_object **ret);
/*
 * A method with several: FN is called for each, until it returns something else than 0. Takes over
 * PARAMETERS, or NULL.
 */
int ctl_call_more(struct ctl_client *c, const char *method, struct json_object *parameters,
		  int (*fn)(void *user, struct json_object *answer), void *user);
