/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctl_screen.h - a text that is redrawn in place until the user ends it. */
#pragma once

#include <signal.h>
#include <stdbool.h>

struct screen {
	bool is_terminal;   /* else texts are printed one after the other */
	sigset_t wait_mask; /* for ppoll(): SIGINT, SIGTERM and SIGHUP are blocked otherwise */
	int rows;	    /* of the terminal; INT_MAX without one */
};

/*
 * Take over the terminal, if there is one and it is WANTED. It is restored when the process exits,
 * also by a signal. Without a terminal, signals keep their default actions. There can be one screen
 * at a time.
 */
void screen_open(struct screen *s, bool wanted);
void screen_close(struct screen *s);

/* Lines and columns that do not fit are cut off. */
void screen_draw(struct screen *s, const char *text);

/* Returns false when the user ended it, with a key or a signal. */
bool screen_wait(struct screen *s, unsigned int seconds);
/* Whether a signal ended it. */
bool screen_interrupted(void);
