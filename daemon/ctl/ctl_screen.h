/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ctl_screen.h - text that is redrawn in place until the user has seen enough.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

struct screen {
	bool is_terminal;   /* else what is drawn is just printed, one text after the other */
	sigset_t wait_mask; /* to wait with: else signals do not end who has the terminal */
	int rows;	    /* how many lines the next text may have; INT_MAX without a terminal */
};

/*
 * One at a time. Take the terminal, if there is one and it is WANTED; whatever way the process
 * ends, it is then as it was. Without it signals do what they always do.
 */
void screen_open(struct screen *s, bool wanted);
void screen_close(struct screen *s);

/* What does not fit is cut off. */
void screen_draw(struct screen *s, const char *text);

/* False: the user wants to end, by key or signal. */
bool screen_wait(struct screen *s, unsigned int seconds);
bool screen_interrupted(void); /* it was a signal */
