#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""flood.py - connections that peer.py does not make.

  ADDR PORT N FILE              N at once. Prints `early N` when no more become connected, and
                                `all N` when those that were left did after FILE appeared
  fastopen ADDR PORT LOCAL      one whose SYN carries data: 1000 bytes and the line that asks
                                peer.py for as many. Prints how many came back
"""

import os
import resource
import select
import socket
import sys
import time

from peer import pattern


def connected(poller, socks, until, quiet):
    """Wait for sockets to connect, until none does for QUIET seconds, at most until UNTIL.

    Returns how many did.
    """
    n, last = 0, time.monotonic()
    while socks and time.monotonic() < until and time.monotonic() - last < quiet:
        for fd, _ in poller.poll(100):
            poller.unregister(fd)
            sock = socks.pop(fd)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                n += 1
            last = time.monotonic()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
    return n


def flood(addr, port, count, go):
    files = count + 100
    hard = max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    poller, socks = select.poll(), {}
    for _ in range(count):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.connect_ex((addr, port))
        socks[sock.fileno()] = sock
        poller.register(sock, select.POLLOUT)
    n = connected(poller, socks, time.monotonic() + 20, 2)
    print("early %d" % n, flush=True)
    while not os.path.exists(go):
        time.sleep(0.05)
    n += connected(poller, socks, time.monotonic() + 60, 20)
    print("all %d" % n, flush=True)


def fastopen(addr, port, local):
    family = socket.AF_INET6 if ":" in addr else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", local))
    sock.settimeout(10)
    sock.sendto(b"0 1000\n" + pattern(0, 1000), socket.MSG_FASTOPEN, (addr, port))
    data = b""
    while len(data) < 1000:
        got = sock.recv(1000 - len(data))
        if not got:
            break
        data += got
    print(len(data) if data == pattern(0, len(data)) else "wrong data")


if sys.argv[1] == "fastopen":
    fastopen(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    flood(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
