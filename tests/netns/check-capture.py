#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""check-capture.py - would a server accept the TCP timestamps in a capture?

  check-capture.py SERVER.pcap                       segments that arrived at the server
  check-capture.py --client CLIENT.pcap SERVER.pcap  both sides of the gateway, segment by segment

Written from RFC 7323 and the pcap format alone, so that it shares no mistake with the program under
test. Prints a flat JSON object, the first violations in "examples", and exits 1 when there are
violations, 2 when it cannot read a capture.

At the server, per tuple (client address, client port, server address, server port):
  syn_not_above       a new connection's SYN, or one sent again after it was refused, has a TSval
                      that is not strictly above all that the tuple sent before
  below_syn           a segment's TSval is below that of its connection's SYN
  implausible         TSval moved otherwise than the time: the connection's shift changed (see
                      --rate, --slack)
  bad_checksum        with --checksums: neither complete and right, nor partial and right
With both sides, per connection, found again by its ISN:
  shift_varies        TSval does not differ by one constant over all segments
  echo_differs        TSecr of an answer is not shifted back by the same constant
  foreign_change      something else changed than NAT and the shift require
"""

import argparse
import json
import struct
import sys

FIN, SYN, RST, ACK = 1, 2, 4, 16
MASK = 0xFFFFFFFF
MAX_WINDOW = 1 << 25  # how far a segment may lie beyond its connection's others
VIOLATIONS = (
    "syn_not_above",
    "below_syn",
    "implausible",
    "bad_checksum",
    "shift_varies",
    "echo_differs",
    "foreign_change",
)


def serial(a, b):
    """a - b, the way sequence numbers and timestamps compare."""
    return ((a - b + 0x80000000) & MASK) - 0x80000000


class Bad(Exception):
    pass


class Segment:
    __slots__ = (
        "time", "src", "dst", "sport", "dport", "seq", "ack", "flags", "window", "length",
        "ts", "tsval", "tsecr", "ip", "whole", "tcp_off",
    )  # fmt: skip


def read_pcap(path):
    """Yield (time in seconds, link type, captured bytes, original length)."""
    with open(path, "rb") as f:
        data = f.read()
    if len(data) < 24:
        raise Bad("%s: no pcap file" % path)
    magic = data[:4]
    formats = {
        b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
        b"\xa1\xb2\xc3\xd4": (">", 1e-6),
        b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
        b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    }
    if magic not in formats:
        raise Bad("%s: no pcap file (magic %s)" % (path, magic.hex()))
    order, unit = formats[magic]
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    head = struct.Struct(order + "IIII")
    at, end = 24, len(data)
    while at + 16 <= end:
        sec, frac, caplen, length = head.unpack_from(data, at)
        at += 16
        if at + caplen > end:
            break  # cut off while it was written
        yield sec + frac * unit, link, data[at : at + caplen], length
        at += caplen


def network_layer(link, frame):
    """Where IP starts in the frame, or None."""
    if link == 1:
        at = 14
        proto = frame[12:14]
        while proto in (b"\x81\x00", b"\x88\xa8"):
            proto = frame[at + 2 : at + 4]
            at += 4
        return at if proto in (b"\x08\x00", b"\x86\xdd") else None
    if link in (12, 14, 101, 228, 229):
        return 0
    if link == 113:
        return 16 if frame[14:16] in (b"\x08\x00", b"\x86\xdd") else None
    if link == 276:
        return 20 if frame[0:2] in (b"\x08\x00", b"\x86\xdd") else None
    raise Bad("link type %d is not supported" % link)


def ipv6_payload(frame, at, end):
    """Offset of the TCP header behind the IPv6 header at AT, or None."""
    proto, off = frame[at + 6], at + 40
    while True:
        if proto == 6:
            return off
        if off + 8 > end:
            return None
        if proto in (0, 43, 60):
            proto, off = frame[off], off + 8 + 8 * frame[off + 1]
        elif proto == 51:
            proto, off = frame[off], off + 8 + 4 * frame[off + 1]
        elif proto == 44:
            if struct.unpack_from("!H", frame, off + 2)[0] & 0xFFF8:
                return None
            proto, off = frame[off], off + 8
        else:
            return None


TCP_HEAD = struct.Struct("!HHIIBBHHH")
TS_USUAL = b"\x01\x01\x08\x0a"
TS_SYN = b"\x04\x02\x08\x0a"
TWO = struct.Struct("!II")


def timestamp_offsets(frame, at, end):
    """Offsets of the values of all timestamp options in the TCP options AT..END."""
    found = []
    while at < end:
        kind = frame[at]
        if kind == 0:
            break
        if kind == 1:
            at += 1
            continue
        if at + 1 >= end:
            break
        n = frame[at + 1]
        if n < 2 or at + n > end:
            break
        if kind == 8 and n == 10:
            found.append(at + 2)
        at += n
    return found


def parse(time, link, frame, length):
    """The TCP segment in a frame, or None when there is none (or not enough was captured of it)."""
    at = network_layer(link, frame)
    if at is None or len(frame) < at + 40:
        return None
    s = Segment()
    version = frame[at] >> 4
    if version == 4:
        if frame[at + 9] != 6 or (frame[at + 6] << 8 | frame[at + 7]) & 0x1FFF:
            return None
        tcp = at + (frame[at] & 15) * 4
        total = frame[at + 2] << 8 | frame[at + 3]
        s.src, s.dst = frame[at + 12 : at + 16], frame[at + 16 : at + 20]
    elif version == 6:
        if len(frame) < at + 60:
            return None
        tcp = ipv6_payload(frame, at, len(frame))
        if tcp is None:
            return None
        total = 40 + (frame[at + 4] << 8 | frame[at + 5])
        s.src, s.dst = frame[at + 8 : at + 24], frame[at + 24 : at + 40]
    else:
        return None
    if tcp + 20 > len(frame):
        return None
    s.sport, s.dport, s.seq, s.ack, doff, s.flags, s.window, _, _ = TCP_HEAD.unpack_from(frame, tcp)
    payload = tcp + (doff >> 4) * 4
    if payload > len(frame) or payload < tcp + 20:
        return None
    if total in (0, 40) and length - at > 65535:
        total = length - at  # a segment beyond 64 KiB
    s.time = time
    s.length = at + total - payload
    s.whole = len(frame) >= at + total
    s.ip = frame[at : at + total]
    s.tcp_off = tcp - at

    usual = frame[tcp + 20 : tcp + 24]
    if usual == TS_USUAL and payload == tcp + 32:
        s.ts = (s.tcp_off + 24,)
    elif frame[tcp + 24 : tcp + 28] == TS_SYN and frame[tcp + 20] == 2 and payload == tcp + 40:
        s.ts = (s.tcp_off + 28,)
        # padding or a window scale may follow, but no second timestamp: there is no room for it
    else:
        s.ts = tuple(off - at for off in timestamp_offsets(frame, tcp + 20, payload))
    if s.ts:
        s.tsval, s.tsecr = TWO.unpack_from(s.ip, s.ts[-1])  # of several, the last one counts
    else:
        s.tsval = s.tsecr = None
    return s


def segments(path):
    for time, link, frame, length in read_pcap(path):
        s = parse(time, link, frame, length)
        if s is not None:
            yield s


def name(addr):
    if len(addr) == 4:
        return ".".join(map(str, addr))
    return ":".join("%x" % (addr[i] << 8 | addr[i + 1]) for i in range(0, 16, 2))


def tuple_name(key):
    return "%s.%d > %s.%d" % (name(key[0]), key[1], name(key[2]), key[3])


def words(data):
    """The sum of all 16-bit words mod 0xffff.

    2^16 is 1 there, so the bytes are just one large number.
    """
    return int.from_bytes(data if len(data) % 2 == 0 else data + b"\0", "big") % 0xFFFF


def checksum_kind(s):
    """'complete', 'partial' (the hardware would have finished it), or None: wrong."""
    tcp = s.ip[s.tcp_off :]
    pseudo = s.src + s.dst + struct.pack("!II", len(tcp), 6)
    if words(pseudo + tcp) == 0:
        return "complete"
    if struct.unpack_from("!H", tcp, 16)[0] % 0xFFFF == words(pseudo):
        return "partial"
    return None


class Report:
    def __init__(self, limit):
        self.counts = {}
        self.examples = []
        self.limit = limit

    def count(self, what, n=1):
        self.counts[what] = self.counts.get(what, 0) + n

    def violation(self, what, key, s, text):
        self.count(what)
        if len(self.examples) < self.limit:
            self.examples.append("%.6f %s: %s: %s" % (s.time, tuple_name(key), what, text))

    def checksum(self, key, s):
        if not s.whole:
            self.count("checksums_cut")
            return
        kind = checksum_kind(s)
        if kind is None:
            self.violation("bad_checksum", key, s, "seq %d, %d bytes" % (s.seq, s.length))
        else:
            self.count("checksums_" + kind)

    def finish(self, fixed):
        out = dict.fromkeys(fixed, 0)
        out.update(self.counts)
        for what in VIOLATIONS:
            out.setdefault(what, 0)
        out["violations"] = sum(out[what] for what in VIOLATIONS)
        out["examples"] = self.examples
        json.dump(out, sys.stdout, indent=1)
        print()
        return 1 if out["violations"] else 0


class Connection:
    """One ISN on one tuple."""

    __slots__ = (
        "isn", "tsval", "time", "high", "answered", "established", "refused", "closed", "before",
        "last", "last_time"
    )

    def __init__(self, s, before):
        self.isn, self.tsval, self.time = s.seq, s.tsval, s.time
        self.high = s.seq  # the highest sequence number seen
        self.answered = self.established = self.refused = self.closed = False
        self.before = before
        self.last, self.last_time = s.tsval, s.time

    def owns(self, seq):
        return -1 <= serial(seq, self.isn) <= serial(self.high, self.isn) + MAX_WINDOW


class Tuple:
    __slots__ = ("last", "conn")

    def __init__(self):
        self.last = None  # the highest TSval of all connections so far
        self.conn = None


class ServerSide:
    COUNTS = (
        "packets", "tuples", "connections", "reuses", "syn_retransmissions", "syn_acks",
        "challenge_acks", "late_acks", "established", "without_timestamps", "resets", "stray",
    )  # fmt: skip

    def __init__(self, args):
        self.report = Report(args.examples)
        self.rate, self.slack = args.rate, args.slack
        self.checksums = args.checksums
        self.tuples = {}

    def run(self, path):
        tuples, report = self.tuples, self.report
        packets = 0
        for s in segments(path):
            packets += 1
            key = (s.src, s.sport, s.dst, s.dport)
            if self.checksums:
                report.checksum(key, s)
            if s.flags & (FIN | SYN | RST | ACK) == SYN:
                self.syn(key, s)
                continue
            t = tuples.get(key)
            if t is not None:
                self.outbound(t, key, s)
                continue
            t = tuples.get((s.dst, s.dport, s.src, s.sport))
            if t is None:
                report.count("stray")
            else:
                self.inbound(t, s)
        report.count("packets", packets)
        report.count("tuples", len(tuples))
        return report.finish(self.COUNTS)

    def syn(self, key, s):
        report = self.report
        t = self.tuples.get(key)
        if t is None:
            t = self.tuples[key] = Tuple()
        c = t.conn
        # one sent again may come late, overtaken by the ACK of the first one's answer
        if c is not None and c.isn == s.seq and not c.closed:
            report.count("syn_retransmissions")
            if c.established:
                report.count("overtaken_syns")
                self.segment(c, key, s)
            elif c.refused and s.tsval is not None and c.tsval is not None:
                # it may be given a higher TSval than the one that was refused
                self.above(t, key, s)
                c.tsval = c.last = s.tsval
                c.last_time = s.time
                c.refused = False
            else:
                self.plausible(c, key, s)
                c.last_time = s.time
        else:
            report.count("connections")
            if c is not None:
                report.count("reuses")
            if s.tsval is None:
                report.count("without_timestamps")
            else:
                self.above(t, key, s)
            if c is not None:
                c.before = None
            t.conn = Connection(s, c)
        self.advance(t, s.tsval)

    def above(self, t, key, s):
        if t.last is not None and serial(s.tsval, t.last) <= 0:
            text = "TSval %d, last %d (%d)" % (s.tsval, t.last, serial(s.tsval, t.last))
            self.report.violation("syn_not_above", key, s, text)

    def outbound(self, t, key, s):
        c = t.conn
        if s.flags & RST:
            self.report.count("resets")
        if not c.owns(s.seq):
            if c.before is None or not c.before.owns(s.seq):
                if not s.flags & RST:
                    self.report.count("stray")
                return
            c = c.before
        elif serial(s.seq + s.length, c.high) > 0:
            c.high = (s.seq + s.length) & MASK
        if not s.flags & RST and c.answered and not c.established:
            c.established = True
            self.report.count("established")
        if s.flags & (FIN | RST):
            c.closed = True
        self.segment(c, key, s)
        self.advance(t, s.tsval)

    def segment(self, c, key, s):
        if s.tsval is not None and c.tsval is not None and serial(s.tsval, c.tsval) < 0:
            self.report.violation(
                "below_syn", key, s, "TSval %d, its SYN's %d" % (s.tsval, c.tsval)
            )
        elif s.tsval is not None and c.last is not None and serial(s.tsval, c.last) < 0:
            # a younger segment of the connection was faster; in TIME_WAIT a server counts that as
            # refused, too
            self.report.count("overtaken_segments")
        self.plausible(c, key, s)
        if s.tsval is not None:
            c.last, c.last_time = s.tsval, s.time

    def inbound(self, t, s):
        c = t.conn
        if s.flags & RST:
            return
        if s.flags & SYN:
            if s.ack == (c.isn + 1) & MASK and not c.answered:
                self.report.count("syn_acks")
                c.answered = True
        elif not c.answered and s.flags & ACK and s.ack != (c.isn + 1) & MASK:
            if s.tsecr is not None and c.tsval is not None and serial(s.tsecr, c.tsval) < 0:
                # of the connection before, crossing the SYN: a server refuses nothing that is
                # above the last one it knows
                self.report.count("late_acks")
                return
            # it tells a TSval that the tuple sent before, even before the capture began
            self.report.count("challenge_acks")
            c.refused = True
            self.advance(t, s.tsecr)

    @staticmethod
    def advance(t, tsval):
        if tsval is not None and (t.last is None or serial(tsval, t.last) > 0):
            t.last = tsval

    def plausible(self, c, key, s):
        """Between two segments of a connection its TSval moves as time does."""
        if not self.rate or s.tsval is None or c.tsval is None:
            return
        moved = serial(s.tsval, c.last) / self.rate
        passed = s.time - c.last_time
        if abs(moved - passed) > self.slack:
            self.report.violation(
                "implausible", key, s, "TSval moved %.3f s in %.3f s" % (moved, passed)
            )


class Compare:
    """The same connections on both sides of the gateway."""

    COUNTS = (
        "connections", "shifted_connections", "unshifted_connections", "compared", "unmatched",
        "only_one_side"
    )

    def __init__(self, args):
        self.report = Report(args.examples)
        self.checksums = args.checksums

    def connections(self, path):
        """By (server address, server port, ISN): the client's tuple there, and its segments.

        The segments are in order, each direction for itself.
        """
        found, current = {}, {}
        for s in segments(path):
            key = (s.src, s.sport, s.dst, s.dport)
            if self.checksums:
                self.report.checksum(key, s)
            back = (s.dst, s.dport, s.src, s.sport)
            if s.flags & (FIN | SYN | RST | ACK) == SYN:
                ident = (s.dst, s.dport, s.seq)
                if current.get(key) != ident:
                    current[key] = ident
                    found.setdefault(ident, (key, [], []))
                found[ident][1].append(s)
            elif key in current:
                found[current[key]][1].append(s)
            elif back in current:
                found[current[back]][2].append(s)
        return found

    def run(self, client_path, server_path):
        client, server = self.connections(client_path), self.connections(server_path)
        for ident in client.keys() | server.keys():
            if ident not in client or ident not in server:
                self.report.count("only_one_side")
                continue
            self.connection(client[ident], server[ident])
        return self.report.finish(self.COUNTS)

    def pairs(self, a, b, outbound):
        """Match segments by the fields that neither NAT nor a shift may change.

        Equal ones are matched in the order of their timestamps, as two processors may turn
        neighbours round on the way. Where one was lost on the way, its equals are told apart by the
        other timestamp, too.
        """
        for x, y in self.groups(a, b, lambda s: (s.seq, s.ack, s.flags, s.length)):
            if len(x) == len(y):
                yield from zip(self.ordered(x), self.ordered(y))
                continue
            other = (lambda s: s.tsecr) if outbound else (lambda s: s.tsval)
            for x, y in self.groups(x, y, other):
                if len(x) == len(y):
                    yield from zip(self.ordered(x), self.ordered(y))
                else:
                    self.report.count("unmatched", len(x) + len(y))

    def ordered(self, equals):
        """Whichever way they came: by their other fields, then by their timestamps."""
        if len(equals) == 1:
            return equals
        first = equals[0]

        def since(a, b):
            return 0 if a is None or b is None else serial(a, b)

        def rest(s):
            p = self.masked(s, 0, True)
            for off in s.ts:
                p[off + 4 : off + 8] = bytes(4)
            return bytes(p), since(s.tsval, first.tsval), since(s.tsecr, first.tsecr)

        return sorted(equals, key=rest)

    @staticmethod
    def groups(a, b, key):
        found = {}
        for side, side_segments in enumerate((a, b)):
            for s in side_segments:
                found.setdefault(key(s), ([], []))[side].append(s)
        return found.values()

    def connection(self, inside, outside):
        report, key = self.report, outside[0]
        shift = None
        report.count("connections")
        for a, b in self.pairs(inside[1], outside[1], True):
            report.count("compared")
            if a.tsval is not None and b.tsval is not None:
                d = (b.tsval - a.tsval) & MASK
                if shift is None:
                    shift = d
                elif d != shift:
                    report.violation("shift_varies", key, b, "%d, before %d" % (d, shift))
            self.unchanged(key, a, b, 0, shift)
        for a, b in self.pairs(inside[2], outside[2], False):
            report.count("compared")
            if a.tsecr is not None and b.tsecr is not None:
                expected = shift if b.tsecr and b.flags & ACK else 0
                d = (b.tsecr - a.tsecr) & MASK
                if d != (expected or 0):
                    report.violation(
                        "echo_differs", key, b, "TSecr differs by %d, shift %d" % (d, expected or 0)
                    )
            self.unchanged(key, a, b, 4, shift)
        report.count("shifted_connections" if shift else "unshifted_connections")

    def unchanged(self, key, a, b, mutable, shift):
        """Byte by byte, but for NAT's fields and, if it is shifted, the one timestamp field."""
        x, y = self.masked(a, mutable, shift), self.masked(b, mutable, shift)
        n = min(len(x), len(y))
        if a.whole and b.whole and len(x) != len(y):
            self.report.violation(
                "foreign_change", key, b, "%d bytes, inside %d" % (len(y), len(x))
            )
        elif x[:n] != y[:n]:
            at = next(i for i in range(n) if x[i] != y[i])
            self.report.violation(
                "foreign_change", key, b, "byte %d is %02x, inside %02x" % (at, y[at], x[at])
            )

    @staticmethod
    def masked(s, mutable, shift):
        p = bytearray(s.ip)
        if p[0] >> 4 == 4:
            p[8] = 0  # TTL
            p[10:20] = bytes(10)  # header checksum, addresses
        else:
            p[7] = 0
            p[8:40] = bytes(32)
        p[s.tcp_off : s.tcp_off + 4] = bytes(4)
        p[s.tcp_off + 16 : s.tcp_off + 18] = bytes(2)
        if shift:
            for off in s.ts:
                p[off + mutable : off + mutable + 4] = bytes(4)
        return p


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="capture at the server")
    parser.add_argument("--client", metavar="FILE", help="compare with this capture at the client")
    parser.add_argument(
        "--checksums", action="store_true", help="verify TCP checksums of whole packets"
    )
    parser.add_argument(
        "--rate", type=float, default=1000,
        help="ticks of the clients' clock per second; 0: unknown"
    )
    parser.add_argument("--slack", type=float, default=2, help="seconds that a segment may be late")
    parser.add_argument("--examples", type=int, default=10, help="how many violations to show")
    args = parser.parse_args()
    try:
        if args.client:
            return Compare(args).run(args.client, args.server)
        return ServerSide(args).run(args.server)
    except (Bad, OSError) as e:
        print("check-capture: %s" % e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
