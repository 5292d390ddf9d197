// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "ctl_screen.h"
#include "base/util.h"

/* Switch to the alternate screen and hide the cursor; and back. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

static struct termios saved_termios;
static bool termios_changed, screen_entered;
static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
	(void)signal;
	interrupted = 1;
}

static void restore_terminal(void)
{
	if (screen_entered) {
		fputs(LEAVE, stdout);
		fflush(stdout);
	}
	if (termios_changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_termios);
	screen_entered = termios_changed = false;
}

/*
 * Read single keys, without echo. Ctrl-C still sends its signal. Ctrl-Z and Ctrl-\ do not: they
 * would leave the terminal in this mode.
 */
static void take_keys(void)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &saved_termios) < 0)
		return;
	t = saved_termios;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	t.c_cc[VSUSP] = t.c_cc[VQUIT] = _POSIX_VDISABLE;
	termios_changed = tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
}

static bool is_capable_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static void measure(struct screen *s, int *ret_columns)
{
	struct winsize size = { 0 };

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	s->rows = size.ws_row ? size.ws_row : 24;
	*ret_columns = size.ws_col ? size.ws_col : 80;
}

static void take_signals(sigset_t *ret_wait_mask)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &blocked, ret_wait_mask);
	/* the parent may have started us with these signals blocked */
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigdelset(ret_wait_mask, signals[i]);
}

void screen_open(struct screen *s, bool wanted)
{
	int columns;

	*s = (struct screen){ .is_terminal = wanted && is_capable_terminal(), .rows = INT_MAX };
	if (!s->is_terminal) {
		sigprocmask(SIG_BLOCK, NULL, &s->wait_mask);
		return;
	}
	take_signals(&s->wait_mask);
	atexit(restore_terminal);
	if (isatty(STDIN_FILENO))
		take_keys();
	fputs(ENTER, stdout);
	screen_entered = true;
	measure(s, &columns);
}

void screen_close(struct screen *s)
{
	(void)s;
	restore_terminal();
}

void screen_draw(struct screen *s, const char *text)
{
	int columns, row = 0;

	if (!s->is_terminal) {
		fputs(text, stdout);
		fflush(stdout);
		return;
	}
	measure(s, &columns);
	fputs(HOME, stdout);
	while (*text && row < s->rows) {
		int length = (int)strcspn(text, "\n");

		/* a newline after the last row would scroll */
		printf("%s%.*s" CLEAR_LINE, row ? "\r\n" : "", length < columns ? length : columns,
		       text);
		text += length + (text[length] == '\n');
		row++;
	}
	if (row < s->rows)
		fputs("\r\n" CLEAR_BELOW, stdout);
	fflush(stdout);
}

/* Returns false for the key that ends top, and when standard input has ended. */
static bool read_key(void)
{
	char key;
	ssize_t n = read(STDIN_FILENO, &key, 1);

	return n == 1 ? key != 'q' && key != 'Q' : n < 0 && errno == EINTR;
}

bool screen_wait(struct screen *s, unsigned int seconds)
{
	struct pollfd stdin_poll = { .fd = termios_changed ? STDIN_FILENO : -1, .events = POLLIN };
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now;
	end.tv_sec += seconds;
	while (!interrupted) {
		long long left =
			(end.tv_sec - now.tv_sec) * 1000000000LL + (end.tv_nsec - now.tv_nsec);
		struct timespec t = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
		int n;

		if (left <= 0)
			return true;
		n = ppoll(&stdin_poll, 1, &t, &s->wait_mask);
		if (n > 0 && !read_key())
			return false;
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	return false;
}

bool screen_interrupted(void)
{
	return interrupted;
}
