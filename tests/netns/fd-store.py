#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""fd-store.py DIRECTORY - a service manager that keeps a daemon's descriptors between its end and
its next start.

Reads one command a line from DIRECTORY/commands, a fifo, and prints each event:

    start COMMAND...    run it, with the descriptors that are kept; then "started PID", and "ready"
                        when it is
    signal NAME         send the signal; "ended STATUS" (or -SIGNAL) when the process has ended, for
                        whatever reason
    forget              keep nothing any more, as after a stop; "forgotten"
    end                 end the process by SIGKILL, and this program

"stored NAME" and "removed NAME" tell of the daemon's requests. The daemon relies on these habits of
systemd: descriptors arrive with FDSTORE=1, named by FDNAME=. A descriptor that is there already is
not kept twice. One stored without FDPOLL=0 is thrown out when it has an error, so that here it is
never kept. FDSTOREREMOVE=1 closes all of that name. BARRIER=1 closes the descriptor beside it.
"""

import array
import fcntl
import os
import select
import shlex
import signal
import socket
import sys

directory = sys.argv[1]
address = os.path.join(directory, "manager")
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(address)
commands = os.open(os.path.join(directory, "commands"), os.O_RDWR)  # never at its end
wake_read, wake_write = os.pipe()
os.set_blocking(wake_write, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(wake_write)

store = []  # (name, descriptor)
child = None


def say(*words):
    print(*words, flush=True)


def is_kept(fd):
    new = os.fstat(fd)
    there = (os.fstat(f) for _, f in store)
    return any((new.st_dev, new.st_ino) == (old.st_dev, old.st_ino) for old in there)


def on_message(text, fds):
    fields = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    name = fields.get("FDNAME", "stored")
    if fields.get("FDSTORE") == "1" and fields.get("FDPOLL") == "0":
        for fd in fds:
            if is_kept(fd):
                os.close(fd)
            else:
                store.append((name, fd))
                say("stored", name)
        return
    for fd in fds:
        os.close(fd)
    if fields.get("FDSTOREREMOVE") == "1":
        for entry in [e for e in store if e[0] == name]:
            store.remove(entry)
            os.close(entry[1])
            say("removed", name)
    if fields.get("READY") == "1":
        say("ready")


def read_manager():
    message, ancillary, _, _ = manager.recvmsg(
        4096, socket.CMSG_SPACE(64 * 4), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    on_message(message.decode(), list(fds))


def become(command):
    """In the child: the kept descriptors from 3 on, and nothing else."""
    os.environ.update(NOTIFY_SOCKET=address)
    if store:
        os.environ.update(
            LISTEN_PID=str(os.getpid()),
            LISTEN_FDS=str(len(store)),
            LISTEN_FDNAMES=":".join(name for name, _ in store),
        )
    high = [os.dup(fd) for _, fd in store]  # out of the way
    above = 3 + len(high)
    high = [fd if fd >= above else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in high]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i, inheritable=True)
    os.execvp(command[0], command)


def start(command):
    global child
    child = os.fork()
    if child == 0:
        try:
            become(command)
        finally:
            os._exit(127)
    say("started", child)


def on_command(line):
    verb, _, rest = line.partition(" ")
    if verb == "start":
        start(shlex.split(rest))
    elif verb == "signal":
        os.kill(child, getattr(signal, "SIG" + rest))
    elif verb == "forget":
        for _, fd in store:
            os.close(fd)
        store.clear()
        say("forgotten")
    elif verb == "end":
        if child:
            os.kill(child, signal.SIGKILL)
        sys.exit(0)


def reap():
    global child
    os.read(wake_read, 64)
    while child:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == 0:
            return
        child = None
        say("ended", os.waitstatus_to_exitcode(status))


def main():
    pending = b""
    while True:
        # as in systemd, messages come before the end of who sent them
        ready = select.select([manager, commands, wake_read], [], [])[0]
        if manager in ready:
            read_manager()
        elif wake_read in ready:
            reap()
        elif commands in ready:
            pending += os.read(commands, 4096)
            while b"\n" in pending:
                line, pending = pending.split(b"\n", 1)
                on_command(line.decode())


main()
