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

/* For a client that begins as { .fd = -1 }. */
#define _cleanup_ctl_close_ __attribute__((cleanup(ctl_close)))

/* Call a method that has one answer. -EREMOTEIO: the answer is an error. */
int ctl_call(struct ctl_client *c, const char *method, struct json_object **ret);
/* The same after ctl_open(); the caller closes, on failure too. */
int ctl_open_and_call(struct ctl_client *c, const char *path, const char *method,
		      struct json_object **ret);
/*
 * A method with several: FN is called for each, until it returns something else than 0. Takes over
 * PARAMETERS, or NULL.
 */
int ctl_call_more(struct ctl_client *c, const char *method, struct json_object *parameters,
		  int (*fn)(void *user, struct json_object *answer), void *user);
