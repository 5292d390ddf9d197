#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""strict-server.py MODE IFACE ADDRESS... - a TCP server that is stricter about timestamps than
those of today.

It answers for ADDRESSes that no kernel owns, by a packet socket on IFACE: to every request on port
80 with an HTTP response and FIN. It compares a SYN's TSval with those that MODE names, for 60 s
after it last heard of them:

  address   all that it saw from the source address, whatever the ports, as Linux did with
            tcp_tw_recycle: a SYN that is more than one tick behind gets no answer
  tuple     all that it saw from the tuple: a SYN that is not strictly above gets an ACK that tells
            the last TSval

On SIGTERM, and at each SIGUSR1, it prints its counters as a line of JSON:

  syns, again (sent again), accepted, refused   SYNs
  served                                        connections that came to their end
  discarded                                     segments below one that their connection sent before
                                                (PAWS)
  wrong_echo                                    segments whose TSecr is none of the TSvals that were
                                                sent to them
  strangers                                     segments of no connection
"""

import json
import select
import signal
import socket
import struct
import sys
import time

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MASK = 0xFFFFFFFF
MEMORY = 60  # seconds
WINDOW = 1  # ticks that a SYN may be behind: TCP_PAWS_WINDOW
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"

counters = dict.fromkeys(
    ("syns", "again", "accepted", "refused", "served", "discarded", "wrong_echo", "strangers"), 0
)


def serial(a, b):
    return ((a - b + 0x80000000) & MASK) - 0x80000000


def clock():
    return int(time.monotonic() * 1000) & MASK


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    n = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    n = (n >> 16) + (n & 0xFFFF)
    return ~(n + (n >> 16)) & 0xFFFF


class Connection:
    __slots__ = ("isn", "seq", "ack", "ts_recent", "first_echo", "answered", "finished")

    def __init__(self, isn, tsval):
        self.isn = isn
        self.seq = isn * 7 & MASK
        self.ack = (isn + 1) & MASK
        self.ts_recent = tsval
        self.first_echo = clock()
        self.answered = self.finished = False


class Memory:
    """The highest TSval per key, and when."""

    def __init__(self):
        self.seen = {}

    def recall(self, key):
        tsval, at = self.seen.get(key, (None, 0))
        return tsval if time.monotonic() - at < MEMORY else None

    def note(self, key, tsval):
        last = self.recall(key)
        if last is None or serial(tsval, last) > 0:
            last = tsval
        self.seen[key] = (last, time.monotonic())


def timestamps(options):
    """The TSval and TSecr of the last timestamp option, or None."""
    found, at = None, 0
    while at < len(options):
        kind = options[at]
        if kind == 0:
            break
        if kind == 1:
            at += 1
            continue
        if at + 1 >= len(options) or options[at + 1] < 2 or at + options[at + 1] > len(options):
            break
        if kind == 8 and options[at + 1] == 10:
            found = struct.unpack_from("!II", options, at + 2)
        at += options[at + 1]
    return found


class Server:
    def __init__(self, mode, iface, addresses):
        self.mode = mode
        self.addresses = set()
        self.connections = {}
        self.memory = Memory()
        self.sockets = {}
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self.addresses.add(socket.inet_pton(family, address))
            proto = 0x86DD if family == socket.AF_INET6 else 0x0800
            if proto in self.sockets:
                continue
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(proto))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            sock.bind((iface, proto))
            self.sockets[proto] = sock

    def send(self, to, key, seq, ack, flags, tsecr, payload=b"", tsval=None):
        """KEY as the connection's segments have it: from the client's view."""
        src, sport, dst, dport = key
        options = struct.pack("!BBBBII", 1, 1, 8, 10, clock() if tsval is None else tsval, tsecr)
        if flags & SYN:
            options += struct.pack("!BBH", 2, 4, 1400)
        head = struct.pack(
            "!HHIIBBHHH", dport, sport, seq, ack, (20 + len(options)) << 2, flags, 64000, 0, 0
        )
        segment = bytearray(head + options + payload)
        struct.pack_into(
            "!H", segment, 16, checksum(dst + src + struct.pack("!II", len(segment), 6) + segment)
        )
        if len(src) == 4:
            ip = bytearray(
                struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 6, 0)
                + dst + src
            )
            struct.pack_into("!H", ip, 10, checksum(ip))
        else:
            ip = struct.pack("!IHBB", 6 << 28, len(segment), 6, 64) + dst + src
        self.sockets[to[1]].sendto(bytes(ip) + bytes(segment), to)

    def packet(self, data, sender):
        if data[0] >> 4 == 4:
            off, src, dst, proto = (data[0] & 15) * 4, data[12:16], data[16:20], data[9]
            end = struct.unpack_from("!H", data, 2)[0]
        else:
            off, src, dst, proto = 40, data[8:24], data[24:40], data[6]
            end = 40 + struct.unpack_from("!H", data, 4)[0]
        if dst not in self.addresses or proto != 6:
            return
        sport, dport, seq, ack, doff, flags = struct.unpack_from("!HHIIBB", data, off)
        payload = off + (doff >> 4) * 4
        ts = timestamps(data[off + 20 : payload])
        key = (src, sport, dst, dport)
        to = (sender[0], sender[1], 0, 0, sender[4])
        if ts is None:
            counters["strangers"] += 1
        elif flags & (FIN | SYN | RST | ACK) == SYN:
            self.syn(to, key, seq, ts[0])
        else:
            self.segment(to, key, seq, ack, flags, ts, end - payload)

    def remembered(self, key):
        return key[0] if self.mode == "address" else key

    def refuses(self, key, tsval):
        """The TSval that the SYN is behind of, or None."""
        last = self.memory.recall(self.remembered(key))
        if last is None:
            return None
        if self.mode == "address":
            behind = serial(last, tsval) > WINDOW
        else:
            behind = serial(tsval, last) <= 0
        return last if behind else None

    def syn(self, to, key, seq, tsval):
        c = self.connections.get(key)
        if c is not None and c.isn == seq:
            counters["again"] += 1
        else:
            counters["syns"] += 1
            last = self.refuses(key, tsval)
            if last is not None:
                counters["refused"] += 1
                if self.mode == "tuple" and c is not None:
                    self.send(to, key, c.seq, c.ack, ACK, last)
                return
            counters["accepted"] += 1
            c = self.connections[key] = Connection(seq, tsval)
        self.memory.note(self.remembered(key), tsval)
        self.send(to, key, c.seq, c.ack, SYN | ACK, tsval)

    def segment(self, to, key, seq, ack, flags, ts, length):
        c = self.connections.get(key)
        if c is None or not -1 <= serial(seq, c.isn) < 65536:
            counters["strangers"] += 1
            return
        if flags & RST:
            c.finished = True
            return
        if serial(ts[0], c.ts_recent) < 0:
            counters["discarded"] += 1
            return
        if serial(ts[1], c.first_echo) < 0 or serial(ts[1], clock()) > 0:
            counters["wrong_echo"] += 1
            return
        c.ts_recent = ts[0]
        self.memory.note(self.remembered(key), ts[0])
        if seq != c.ack:
            if serial(seq, c.ack) < 0:
                self.send(
                    to, key, c.seq if c.finished else (c.seq + 1) & MASK, c.ack, ACK, c.ts_recent
                )
            return
        if length and not c.answered:
            c.answered = True
            c.ack = (seq + length) & MASK
            self.send(to, key, (c.seq + 1) & MASK, c.ack, FIN | PSH | ACK, ts[0], RESPONSE)
        if flags & FIN and not c.finished:
            c.finished = True
            counters["served"] += 1
            c.ack = (seq + length + 1) & MASK
            c.seq = (c.seq + 2 + len(RESPONSE)) & MASK
            self.send(to, key, c.seq, c.ack, ACK, ts[0])

    def run(self):
        poll = select.poll()
        by_fd = {sock.fileno(): sock for sock in self.sockets.values()}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                self.packet(*by_fd[fd].recvfrom(65536))


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("address", "tuple"):
        sys.exit(__doc__)
    server = Server(sys.argv[1], sys.argv[2], sys.argv[3:])

    def tell(signum, _frame):
        print(json.dumps(counters), flush=True)
        if signum == signal.SIGTERM:
            sys.exit(0)

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGUSR1, tell)
    print("serving", flush=True)
    server.run()


if __name__ == "__main__":
    main()
