// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "kept_queues.h"
#include "base/util.h"

/* The longest wait for the service manager. */
#define SETTLE_US 2000000

/* ---- names: queue-NUMBER-COPYRANGE-mapping|plain ---- */

static void make_name(char name[KEPT_NAME_MAX], uint16_t num, uint32_t copy_range, bool has_mapping)
{
	snprintf(name, KEPT_NAME_MAX, "queue-%u-%u-%s", num, copy_range,
		 has_mapping ? "mapping" : "plain");
}

static bool parse_name(const char *name, struct kept_queue *q)
{
	char again[KEPT_NAME_MAX], kind[8];

	if (sscanf(name, "queue-%hu-%u-%7[a-z]", &q->num, &q->copy_range, kind) != 3)
		return false;
	q->has_mapping = !strcmp(kind, "mapping");
	/* A name that make_name() would write differently (leading zeros, a tail) is not ours. */
	make_name(again, q->num, q->copy_range, q->has_mapping);
	return !strcmp(name, again);
}

static bool is_netfilter_socket(int fd)
{
	int domain, protocol;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_NETLINK)
		return false;
	len = sizeof(protocol);
	return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       protocol == NETLINK_NETFILTER;
}

/* ---- messages to the service manager ---- */

static void remove_name(const char *name)
{
	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

int kept_queues_put(struct mnl_socket *nl, uint16_t num, uint32_t copy_range, bool has_mapping)
{
	const int fd = mnl_socket_get_fd(nl);
	char name[KEPT_NAME_MAX], message[KEPT_NAME_MAX + 64];
	int r;

	make_name(name, num, copy_range, has_mapping);
	/*
	 * FDPOLL=0: without it the service manager closes a stored descriptor that has an error,
	 * and an overrun counts as one.
	 */
	snprintf(message, sizeof(message), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name);
	r = sd_pid_notify_with_fds(0, 0, message, &fd, 1);
	return r < 0 ? r : 0;
}

void kept_queues_drop(uint16_t num, uint32_t copy_range, bool has_mapping)
{
	char name[KEPT_NAME_MAX];

	make_name(name, num, copy_range, has_mapping);
	remove_name(name);
}

bool kept_queues_possible(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

void kept_queues_settle(void)
{
	sd_notify_barrier(0, SETTLE_US);
}

/* ---- queues from the service manager ---- */

static void receive_one(struct kept_queues *k, int fd, const char *name)
{
	struct kept_queue q = { .nl = NULL };

	if (k->n < KEPT_QUEUES_MAX && parse_name(name, &q) && is_netfilter_socket(fd))
		q.nl = mnl_socket_fdopen(fd);
	if (q.nl) {
		k->queue[k->n++] = q;
		return;
	}
	remove_name(name);
	close(fd);
}

int kept_queues_receive(struct kept_queues *k)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(true, &names);

	for (int i = 0; i < n; i++) {
		receive_one(k, SD_LISTEN_FDS_START + i, names[i]);
		free(names[i]);
	}
	free(names);
	return n < 0 ? n : 0;
}

bool kept_queues_has(const struct kept_queues *k, uint16_t num)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->queue[i].nl && k->queue[i].num == num)
			return true;
	return false;
}

static void give_up(struct kept_queue *q)
{
	/* The kernel drops the packets that wait in a queue when the queue is closed. */
	queue_accept_waiting(q->nl, q->num, QUEUE_MAXLEN);
	kept_queues_drop(q->num, q->copy_range, q->has_mapping);
	mnl_socket_close(q->nl);
	q->nl = NULL;
}

void kept_queues_give_up(struct kept_queues *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->queue[i].nl)
			give_up(&k->queue[i]);
	/* A queue stays bound, and its SYNs wait, until the service manager has closed it, too. */
	if (k->n)
		kept_queues_settle();
	k->n = 0;
}

struct mnl_socket *kept_queues_take(struct kept_queues *k, uint16_t num, uint32_t copy_range,
				    bool *ret_has_mapping)
{
	for (size_t i = 0; i < k->n; i++) {
		struct kept_queue *q = &k->queue[i];
		struct mnl_socket *nl = q->nl;

		if (!nl || q->num != num)
			continue;
		if (q->copy_range != copy_range) {
			give_up(q);
			kept_queues_settle();
			continue;
		}
		q->nl = NULL;
		queue_forget_read(nl, num);
		*ret_has_mapping = q->has_mapping;
		return nl;
	}
	return NULL;
}
