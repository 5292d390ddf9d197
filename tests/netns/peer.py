#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""peer.py - both ends of connections whose port, size and course a test decides.

  serve PORT                      exchange with whoever connects; closes first, so TIME_WAIT is here
  talk ADDR PORT [options]        one connection
  ports ADDR PORT LOW HIGH STEP   one HTTP request from each local port; the server closes first

talk prints `key value` lines: `connected_ms`, `clock_offset` (the connection's TSval clock minus
this host's, mod 2^32, when the SYN-ACK has come) and `received`.
"""

import argparse
import os
import select
import socket
import sys
import threading
import time

TCP_TIMESTAMP = 24
CHUNK = 1 << 16
PATTERN = bytes(range(251)) * 600  # 251 is prime: a lost or doubled piece shows


def pattern(offset, n):
    start = offset % 251
    return PATTERN[start : start + n]


def send_pattern(sock, begin, end):
    while begin < end:
        n = min(CHUNK, end - begin)
        sock.sendall(pattern(begin, n))
        begin += n


def receive_pattern(sock, begin, end):
    while begin < end:
        data = sock.recv(min(CHUNK, end - begin))
        if not data:
            raise EOFError("closed after %d of %d bytes" % (begin, end))
        if data != pattern(begin, len(data)):
            raise ValueError("wrong data near byte %d" % begin)
        begin += len(data)


def both_ways(sock, begin, end):
    errors = []

    def sender():
        try:
            send_pattern(sock, begin, end)
        except OSError as e:
            errors.append(e)

    thread = threading.Thread(target=sender)
    thread.start()
    receive_pattern(sock, begin, end)
    thread.join()
    if errors:
        raise errors[0]


def read_line(sock):
    line = b""
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte:
            raise EOFError("closed")
        line += byte
    return line.decode()


def serve_one(sock):
    """Requests are lines `BEGIN END`: exchange that part of the pattern both ways.

    An empty line: close.
    """
    with sock:
        try:
            while True:
                words = read_line(sock).split()
                if not words:
                    return
                both_ways(sock, int(words[0]), int(words[1]))
        except (OSError, EOFError, ValueError) as e:
            print("connection ended:", e, flush=True)


def serve(args):
    sock = socket.create_server(
        ("::", args.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
    )
    print("serving", flush=True)
    while True:
        conn, _ = sock.accept()
        threading.Thread(target=serve_one, args=(conn,), daemon=True).start()


def connect(addr, port, local_port, timeout):
    family = socket.AF_INET6 if ":" in addr else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    if local_port:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("::" if family == socket.AF_INET6 else "", local_port))
    sock.connect((addr, port))
    return sock


def talk(args):
    start = time.monotonic()
    sock = connect(args.addr, args.port, args.local_port, args.timeout)
    print("connected_ms %d" % ((time.monotonic() - start) * 1000), flush=True)
    clock = sock.getsockopt(socket.IPPROTO_TCP, TCP_TIMESTAMP) & 0xFFFFFFFF
    print("clock_offset %d" % ((clock - int(time.monotonic() * 1000)) & 0xFFFFFFFF), flush=True)

    half = args.bytes // 2 if args.pause else args.bytes
    for begin, end in ((0, half), (half, args.bytes)):
        if begin == end:
            continue
        sock.sendall(b"%d %d\n" % (begin, end))
        both_ways(sock, begin, end)
        print("received %d" % end, flush=True)
        while args.pause and not os.path.exists(args.pause):
            time.sleep(0.02)
    sock.sendall(b"\n")
    if sock.recv(1):
        sys.exit("more data than asked for")


def ports(args):
    """As many at once as keep both ends busy.

    A port whose connection fails is reported, not tried again.
    """
    poll = select.epoll()
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    family = socket.AF_INET6 if ":" in args.addr else socket.AF_INET
    todo = list(range(args.low, args.high + 1, args.step))[::-1]
    live, failed, last = {}, 0, time.monotonic()
    while todo or live:
        while todo and len(live) < 16:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("", todo.pop()))
            sock.connect_ex((args.addr, args.port))
            live[sock.fileno()] = [sock, False]
            poll.register(sock.fileno(), select.EPOLLOUT)
        events = poll.poll(1)
        if time.monotonic() - last > 8:
            failed += len(live)
            break
        for fd, _ in events:
            last = time.monotonic()
            state = live[fd]
            try:
                if not state[1]:
                    state[0].send(request)
                    state[1] = True
                    poll.modify(fd, select.EPOLLIN)
                    continue
                if state[0].recv(4096):
                    continue
            except OSError:
                failed += 1
            poll.unregister(fd)
            state[0].close()
            del live[fd]
    if failed or todo:
        sys.exit("%d connections failed, %d ports not tried" % (failed, len(todo)))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)

    p = commands.add_parser("serve")
    p.add_argument("port", type=int)
    p.set_defaults(run=serve)

    p = commands.add_parser("talk")
    p.add_argument("addr")
    p.add_argument("port", type=int)
    p.add_argument("--local-port", type=int, default=0)
    p.add_argument("--bytes", type=int, default=1000, help="exchanged in each direction")
    p.add_argument("--pause", metavar="FILE", help="after half of the bytes wait until FILE exists")
    p.add_argument("--timeout", type=float, default=30)
    p.set_defaults(run=talk)

    p = commands.add_parser("ports")
    p.add_argument("addr")
    p.add_argument("port", type=int)
    p.add_argument("low", type=int)
    p.add_argument("high", type=int)
    p.add_argument("step", type=int)
    p.set_defaults(run=ports)

    args = parser.parse_args()
    try:
        args.run(args)
    except (OSError, EOFError, ValueError) as e:
        sys.exit("%s: %s" % (type(e).__name__, e))


if __name__ == "__main__":
    main()
