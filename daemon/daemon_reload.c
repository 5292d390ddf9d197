// SPDX-License-Identifier: GPL-2.0-or-later
/* daemon_reload.c - read the configuration again while the daemon runs. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "daemon.h"
#include "base/log.h"
#include "base/util.h"

void daemon_log_config(void *user, int level, const char *line)
{
	(void)user;
	log_msg(level, "%s", line);
}

/*
 * The options that a running daemon cannot change. They are compared as bytes, which works for
 * words and paths because config_load() fills the room behind them with zeros.
 */
#define FIXED(field)                                                                        \
	{                                                                                   \
#field, offsetof(struct config, field), sizeof(((struct config *)0)->field) \
	}
static const struct {
	const char *name; /* of the option */
	size_t offset, size;
} fixed[] = {
	FIXED(datapath),  FIXED(decide),	   FIXED(rules),
	FIXED(queue_num), FIXED(queues),	   FIXED(records),
	FIXED(mark_mask), FIXED(state_dir),	   FIXED(runtime_dir),
	FIXED(pin_dir),	  FIXED(conntrack_events),
};

/* Undo changes of options that cannot change now, and name these options. */
static void keep_fixed_options(struct config *new, const struct config *old,
			       const struct reload_listener *listener)
{
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		void *to = (char *)new + fixed[i].offset;
		const void *from = (const char *)old + fixed[i].offset;

		if (memcmp(to, from, fixed[i].size) == 0)
			continue;
		memcpy(to, from, fixed[i].size);
		log_warn("reload: %s changes with a restart only", fixed[i].name);
		if (listener)
			listener->needs_restart(listener->user, fixed[i].name);
	}
}

/* Send a line to the log, and a problem to the client that asked for the reload, too. */
static void report_config(void *user, int level, const char *line)
{
	const struct reload_listener *listener = user;

	log_msg(level, "%s", line);
	if (listener && level == LOG_ERR)
		listener->problem(listener->user, line);
}

static int read_again(struct daemon *d, const struct reload_listener *listener)
{
	enum config_action action;
	struct config new;
	const char *link, *error;
	int r;

	if (config_load(&new, &action, d->argc, d->argv, report_config, (void *)listener) < 0) {
		log_err("reload: the configuration is not valid; the old one stays");
		return -EINVAL;
	}
	keep_fixed_options(&new, &d->cfg, listener);
	d->cfg = new;
	if (daemon_apply_policy(d, true) < 0)
		return -EIO;
	/*
	 * The new configuration stays even if an interface cannot be attached: the status names
	 * that interface as a problem.
	 */
	r = attachments_update(&d->attachments, &d->cfg, &link, &error);
	if (r < 0)
		log_err("reload: %s: %s (%s)", link, error, strerror(-r));
	daemon_keep_queues(d);
	saver_kick(d->saver);
	log_info("reloaded");
	return 0;
}

int daemon_reload(struct daemon *d, const struct reload_listener *listener)
{
	struct timespec now;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)now.tv_sec * 1000000 +
			   (unsigned long long)now.tv_nsec / 1000);
	r = read_again(d, listener);
	/* Also after a failure, because the daemon goes on with the old configuration. */
	sd_notify(0, "READY=1");
	return r;
}
