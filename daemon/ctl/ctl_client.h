/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl_client.h - tsnatctl's end of the varlink socket. No function waits without a time limit. */
#pragma once

#include <json-c/json.h>
#include <signal.h>
#include <stdbool.h>

#include "varlink/buffer.h"

/* For connecting, for sending a call, and for each answer. */
#define CTL_TIMEOUT_MS 10000

struct ctl_client {
	const char *path;
	int fd;
	struct buffer in;
	/* signal mask while waiting for an answer; a signal then ends the wait. NULL: none does */
	const sigset_t *wait_mask;
	char problem[512]; /* after a failure: the reason, for the user */
	/* of the last answer, if it was an error; else NULL */
	char *error;
	struct json_object *error_parameters;
};

/* All functions return 0 or -errno, and set problem on failure. */
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
 * Call a method that has several answers, and FN for each of them, until FN returns something else
 * than 0. Takes over PARAMETERS, which may be NULL.
 */
int ctl_call_more(struct ctl_client *c, const char *method, struct json_object *parameters,
		  int (*fn)(void *user, struct json_object *answer), void *user);
