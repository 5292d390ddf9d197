// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <libmnl/libmnl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guardian.h"
#include "queue_netlink.h"
#include "util.h"

struct guardian_heartbeats *guardian_heartbeats_new(void)
{
	void *p = mmap(NULL, sizeof(struct guardian_heartbeats), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);

	return p == MAP_FAILED ? NULL : p;
}

/* Accept all that waits in the queue. Returns how many packets that were. */
static unsigned int accept_waiting(const struct guardian_queue *q)
{
	char buf[QUEUE_ATTRIBUTES + QUEUE_WHOLE] __attribute__((aligned(8)));
	unsigned int packets = 0;
	uint32_t last_id = 0;

	/* bounded: the daemon may come back, and has the first claim on what comes then */
	for (int i = 0; i < 256; i++) {
		ssize_t n = recv(mnl_socket_get_fd(q->nl), buf, sizeof(buf), MSG_DONTWAIT);
		const struct nlmsghdr *nlh = (const struct nlmsghdr *)buf;
		struct queue_packet p;

		if (n < 0 && errno == ENOBUFS)
			continue;
		if (n <= 0)
			break;
		if (!nlmsg_fits(nlh, (int)n) || queue_parse(nlh, &p) != 1)
			continue;
		last_id = p.id;
		packets++;
	}
	if (packets)
		queue_accept(q->nl, q->num, last_id, true);
	return packets;
}

static bool is_late(const struct guardian_heartbeats *beats, size_t i)
{
	return boot_ms() - atomic_load(&beats->alive_ms[i]) > GUARDIAN_LATE_MS;
}

static void guard(const struct guardian_queue *queues, size_t n, struct guardian_heartbeats *beats)
{
	struct pollfd fds[GUARDIAN_QUEUES_MAX];

	for (;;) {
		/* a queue on time is none of our business: a negative descriptor is not polled */
		for (size_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){
				.fd = is_late(beats, i) ? mnl_socket_get_fd(queues[i].nl) : -1,
				.events = POLLIN,
			};
		if (poll(fds, n, GUARDIAN_LATE_MS / 3) <= 0)
			continue;
		for (size_t i = 0; i < n; i++)
			if (fds[i].revents)
				atomic_fetch_add(&beats->accepted[i], accept_waiting(&queues[i]));
	}
}

static void close_others(const struct guardian_queue *queues, size_t n)
{
	long max = sysconf(_SC_OPEN_MAX);

	for (int fd = 3; fd < (max > 0 && max < 4096 ? max : 4096); fd++) {
		bool keep = false;

		for (size_t i = 0; i < n; i++)
			keep = keep || fd == mnl_socket_get_fd(queues[i].nl);
		if (!keep)
			close(fd);
	}
}

pid_t guardian_start(const struct guardian_queue *queues, size_t n, struct guardian_heartbeats *beats)
{
	pid_t parent = getpid(), pid;
	sigset_t none;

	for (size_t i = 0; i < n; i++)
		atomic_store(&beats->alive_ms[i], boot_ms());
	pid = fork();
	if (pid != 0)
		return pid < 0 ? -errno : pid;

	/* a queue must not stay bound by us when the daemon is gone: then the rules bypass it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, "tsnatd-guardian");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGHUP, SIG_IGN); /* a reload is not for us */
	close_others(queues, n);
	guard(queues, n, beats);
	_exit(0);
}

void guardian_stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
