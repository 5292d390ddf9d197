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
#include "base/util.h"

/* Packets accepted in one go. The daemon may run again by then, and should decide on the rest. */
#define GUARDIAN_BATCH 256

struct guardian_heartbeats *guardian_heartbeats_new(void)
{
	void *p = mmap(NULL, sizeof(struct guardian_heartbeats), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool is_late(const struct guardian_heartbeats *beats, size_t i)
{
	/* Not by a difference: the heartbeat may lie in the future, see guardian_start(). */
	return boot_ms() > atomic_load(&beats->beat_ms[i]) + GUARDIAN_LATE_MS;
}

static void guard(const struct guardian_queue *queues, size_t n, struct guardian_heartbeats *beats)
{
	struct pollfd fds[GUARDIAN_QUEUES_MAX];

	for (;;) {
		/* poll() ignores negative descriptors: queues that are on time are left alone. */
		for (size_t i = 0; i < n; i++)
			fds[i] = (struct pollfd){
				.fd = is_late(beats, i) ? mnl_socket_get_fd(queues[i].nl) : -1,
				.events = POLLIN,
			};
		if (poll(fds, n, GUARDIAN_LATE_MS / 3) <= 0)
			continue;
		for (size_t i = 0; i < n; i++)
			if (fds[i].revents)
				atomic_fetch_add(&beats->accepted[i],
						 queue_accept_waiting(queues[i].nl, queues[i].num,
								      GUARDIAN_BATCH));
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

pid_t guardian_start(const struct guardian_queue *queues, size_t n,
		     struct guardian_heartbeats *beats, uint32_t patience_ms)
{
	pid_t parent = getpid(), pid;
	sigset_t none;

	for (size_t i = 0; i < n; i++)
		atomic_store(&beats->beat_ms[i], boot_ms() + patience_ms);
	pid = fork();
	if (pid != 0)
		return pid < 0 ? -errno : pid;

	/*
	 * End with the daemon. Else the queues would stay bound, and the rules would not bypass
	 * them.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, "tsnatd-guardian");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* A signal for a reload may reach all processes of the service. */
	signal(SIGHUP, SIG_IGN);
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
