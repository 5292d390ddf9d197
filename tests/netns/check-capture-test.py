#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""check-capture-test.py - check-capture.py finds each violation, and not its innocent twin."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check-capture.py")
CLIENT4, GATEWAY4, SERVER4 = bytes([10, 0, 0, 2]), bytes([192, 0, 2, 1]), bytes([198, 51, 100, 2])
CLIENT6, GATEWAY6, SERVER6 = (
    bytes.fromhex(h + "00" * 11 + "02") for h in ("fd000001", "20010db8", "20010db9")
)
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def fold(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def ts(value, echo):
    return b"\x01\x01" + struct.pack("!BBII", 8, 10, value, echo)


def syn_ts(value, echo=0):
    timestamp = struct.pack("!BBII", 8, 10, value, echo)
    return b"\x02\x04\x05\xb4\x04\x02" + timestamp + b"\x01\x03\x03\x07"


def segment(
    src, sport, dst, dport, seq, ack, flags, options=b"", data=b"", ttl=64, window=500,
    checksum="right", ext=b""
):
    """An IP packet."""
    seq, ack = seq & 0xFFFFFFFF, ack & 0xFFFFFFFF
    options += b"\0" * (-len(options) % 4)
    tcp = struct.pack(
        "!HHIIBBHHH", sport, dport, seq, ack, (5 + len(options) // 4) << 4, flags, window, 0, 0
    )
    tcp += options + data
    pseudo = src + dst + struct.pack("!II", len(tcp), 6)
    value = {
        "right": 0xFFFF ^ fold(pseudo + tcp),
        "partial": fold(pseudo),
        "wrong": fold(pseudo + tcp) ^ 0x1234,
    }[checksum]
    tcp = tcp[:16] + struct.pack("!H", value) + tcp[18:]
    if len(src) == 4:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 7, 0x4000, ttl, 6, 0) + src + dst
        return head[:10] + struct.pack("!H", 0xFFFF ^ fold(head)) + head[12:] + tcp
    head = struct.pack("!IHBB", 6 << 28, len(ext) + len(tcp), 60 if ext else 6, ttl)
    return head + src + dst + ext + tcp


class Capture:
    def __init__(self, link=1, order="<", nanoseconds=False):
        self.link, self.order, self.unit = link, order, 1e9 if nanoseconds else 1e6
        magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
        number = 1 if link == "vlan" else link
        self.data = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, number)]

    def add(self, when, packet, cut=None):
        proto = b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"
        frame = {
            1: bytes(12) + proto,
            "vlan": bytes(12) + b"\x81\x00\x00\x05" + proto,
            101: b"",
            113: bytes(14) + proto,
            276: proto + bytes(18),
        }[self.link] + packet
        part = frame[:cut]
        sec = int(when)
        fraction = round((when - sec) * self.unit)
        self.data.append(struct.pack(self.order + "IIII", sec, fraction, len(part), len(frame)))
        self.data.append(part)

    def write(self, path, cut_end=0):
        data = b"".join(self.data)
        with open(path, "wb") as f:
            f.write(data[: len(data) - cut_end])


class Talk:
    """A whole connection as the server sees it (`outer`) and as the client does (`inner`).

    The clock runs at 1 kHz.
    """

    def __init__(self, when, isn, tsval, sport=40000, shift=0, v6=False):
        self.addr = (CLIENT6, GATEWAY6, SERVER6) if v6 else (CLIENT4, GATEWAY4, SERVER4)
        self.start, self.isn, self.tsval, self.sport, self.shift = when, isn, tsval, sport, shift
        self.outer, self.inner = [], []

    def clock(self, ms):
        return (self.tsval + ms) & 0xFFFFFFFF

    def out(
        self, ms, seq, flags, ack=0, options=None, outer_options=None, outer=None, data=b"", **more
    ):
        client, gateway, server = self.addr
        make = syn_ts if flags & SYN else ts
        echo = 0 if flags & SYN else 777
        inner = make(self.clock(ms), echo) if options is None else options
        outside = outer_options
        if outside is None:
            outside = make((self.clock(ms) + self.shift) & 0xFFFFFFFF, echo)
        when = self.start + ms / 1000
        seq += self.isn
        packet = segment(client, 1234, server, 80, seq, ack, flags, inner, data, **more)
        self.inner.append((when, packet))
        more.update(outer or {})
        more.setdefault("ttl", 63)
        packet = segment(gateway, self.sport, server, 80, seq, ack, flags, outside, data, **more)
        self.outer.append((when, packet))

    def into(
        self, ms, flags, ack, echo_ms=None, echo=None, inner_echo=None, seq=9000, data=b"",
        inner_window=500, tsval=777
    ):
        client, gateway, server = self.addr
        if echo is None:
            echo = (self.clock(echo_ms) + self.shift) & 0xFFFFFFFF
        if inner_echo is None:
            inner_echo = (echo - self.shift) & 0xFFFFFFFF if echo else 0
        make = syn_ts if flags & SYN else ts
        when = self.start + ms / 1000
        ack += self.isn
        outside, inside = make(tsval, echo), make(tsval, inner_echo)
        packet = segment(server, 80, gateway, self.sport, seq, ack, flags, outside, data)
        self.outer.append((when, packet))
        packet = segment(
            server, 80, client, 1234, seq, ack, flags, inside, data, 63, inner_window
        )
        self.inner.append((when, packet))

    def handshake(self):
        self.out(0, 0, SYN)
        self.into(1, SYN | ACK, 1, 0)
        self.out(2, 1, ACK, 9001)
        return self

    def whole(self):
        self.handshake()
        self.out(3, 1, PSH | ACK, 9001, data=b"GET /")
        self.into(4, PSH | ACK | FIN, 6, 3, seq=9001, data=b"ok")
        self.out(5, 6, FIN | ACK, 9004)
        self.into(6, ACK, 7, 5, seq=9004)
        return self


class CheckCapture(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def run_checker(self, *args):
        p = subprocess.run([sys.executable, CHECKER, *args], capture_output=True, text=True)
        self.assertIn(p.returncode, (0, 1), p.stderr)
        return p.returncode, json.loads(p.stdout)

    def check(self, *talks, options=(), cut=None, cut_end=0, **kind):
        cap = Capture(**kind)
        for when, packet in sorted((p for t in talks for p in t.outer), key=lambda p: p[0]):
            cap.add(when, packet, cut)
        cap.write(self.path("server.pcap"), cut_end)
        return self.run_checker(*options, self.path("server.pcap"))

    def compare(self, *talks, options=()):
        for name in "inner", "outer":
            cap = Capture()
            for when, packet in sorted(
                (p for t in talks for p in getattr(t, name)), key=lambda p: p[0]
            ):
                cap.add(when, packet)
            cap.write(self.path(name + ".pcap"))
        return self.run_checker(
            *options, "--client", self.path("inner.pcap"), self.path("outer.pcap")
        )

    def assertClean(self, result, **expected):
        status, out = result
        self.assertEqual((status, out["violations"], out["examples"]), (0, 0, []))
        for key, value in expected.items():
            self.assertEqual(out.get(key, 0), value, key)

    def assertFinds(self, result, what, n=1):
        status, out = result
        self.assertEqual(status, 1)
        self.assertEqual(out[what], n, out["examples"])
        self.assertEqual(out["violations"], n, out["examples"])
        self.assertTrue(all(what in text for text in out["examples"]))

    # ---- at the server

    def test_monotonic_reuse(self):
        for v6 in False, True:
            a, b = Talk(100, 5000, 70000, v6=v6).whole(), Talk(101, 99, 71000, v6=v6).whole()
            self.assertClean(
                self.check(a, b), tuples=1, connections=2, reuses=1, syn_acks=2, established=2,
                packets=14, stray=0,
            )

    def test_other_tuples_do_not_matter(self):
        self.assertClean(
            self.check(Talk(100, 1, 70000).whole(), Talk(101, 1, 60, sport=40001).whole()), reuses=0
        )

    def test_lower_syn(self):
        self.assertFinds(
            self.check(Talk(100, 1, 70000).whole(), Talk(101, 9, 69000).whole()), "syn_not_above"
        )

    def test_equal_is_not_above(self):
        # the FIN left at 70005
        self.assertFinds(
            self.check(Talk(100, 1, 70000).whole(), Talk(101, 9, 70005).whole()), "syn_not_above"
        )
        self.assertClean(self.check(Talk(100, 1, 70000).whole(), Talk(101, 9, 70006).whole()))

    def test_serial_arithmetic(self):
        high = 0xFFFFFFF0
        self.assertClean(
            self.check(Talk(100, 1, high).whole(), Talk(101, 9, 0x10).whole()), reuses=1
        )
        self.assertFinds(
            self.check(Talk(100, 1, 0x10).whole(), Talk(101, 9, high).whole()), "syn_not_above"
        )

    def test_above_only_the_syn(self):
        # above the first connection's SYN, not above its last segment
        self.assertFinds(
            self.check(Talk(100, 1, 70000).whole(), Talk(101, 9, 70003).whole()), "syn_not_above"
        )

    def test_segment_below_its_syn(self):
        t = Talk(100, 1, 70000).handshake()
        t.out(3, 1, PSH | ACK, 9001, data=b"x", outer_options=ts(69999, 777))
        self.assertFinds(self.check(t), "below_syn")

    def test_unshifted_segment_above(self):
        t = Talk(100, 1, 70000).handshake()
        t.out(3, 1, PSH | ACK, 9001, data=b"x", outer_options=ts(90000000, 777))
        self.assertFinds(self.check(t), "implausible")
        self.assertClean(self.check(t, options=["--rate", "0"]))

    def test_syn_retransmission(self):
        t = Talk(100, 1, 70000)
        t.out(0, 0, SYN)
        t.out(1020, 0, SYN)
        self.assertClean(self.check(t), syn_retransmissions=1, connections=1)

    def test_syn_retransmission_with_another_shift(self):
        t = Talk(100, 1, 70000)
        t.out(0, 0, SYN)
        t.out(1020, 0, SYN, outer_options=syn_ts(170000))
        self.assertFinds(self.check(t), "implausible")
        t = Talk(100, 1, 70000)
        t.out(0, 0, SYN)
        t.out(1020, 0, SYN, outer_options=syn_ts(20000))
        self.assertFinds(self.check(t), "implausible")

    def test_overtaken_segment(self):
        t = Talk(100, 1, 70000).whole()
        t.out(7, 6, ACK, 9004, outer_options=ts(70003, 777))
        self.assertClean(self.check(t), overtaken_segments=1)

    def test_overtaken_syn(self):
        t = Talk(100, 1, 70000).handshake()
        t.out(3, 0, SYN)
        self.assertClean(self.check(t), connections=1, syn_retransmissions=1, overtaken_syns=1)
        t = Talk(100, 1, 70000).handshake()
        t.out(3, 0, SYN, outer_options=syn_ts(170000))
        self.assertFinds(self.check(t), "implausible")
        # but behind a FIN the same ISN is another connection
        self.assertFinds(
            self.check(Talk(100, 1, 70000).whole(), Talk(101, 1, 70002).whole()), "syn_not_above"
        )

    def test_refused_syn_may_move(self):
        t = Talk(100, 1, 70000)
        t.out(0, 0, SYN)
        t.into(1, ACK, 123456, echo=500000)
        t.out(16, 0, SYN, outer_options=syn_ts(500017))
        self.assertClean(self.check(t), challenge_acks=1, syn_retransmissions=1)

    def test_refused_syn_again_too_low(self):
        # an ISN of its own: another connection
        for again, tsval in (0, 500000), (0, 70016), (9, 500000):
            t = Talk(100, 1, 70000)
            t.out(0, 0, SYN)
            t.into(1, ACK, 123456, echo=500000)
            t.out(16, again, SYN, outer_options=syn_ts(tsval))
            with self.subTest(tsval=tsval, again=again):
                self.assertFinds(self.check(t), "syn_not_above")

    def test_last_ack_of_the_connection_before(self):
        t = Talk(100, 1, 70000)
        t.out(0, 0, SYN)
        t.into(1, ACK, 123456, echo=69990)
        self.assertClean(self.check(t), challenge_acks=0, late_acks=1)

    def test_acks_of_the_connection_are_no_challenge(self):
        self.assertClean(self.check(Talk(100, 1, 70000).whole()), challenge_acks=0, resets=0)

    def test_ecn_syn_is_a_syn(self):
        a, b = Talk(100, 1, 70000).whole(), Talk(101, 9, 60)
        b.out(0, 0, SYN | 0xC0)
        self.assertFinds(self.check(a, b), "syn_not_above")

    def test_late_segment_of_the_old_connection(self):
        a, b = Talk(100, 1 << 20, 70000).whole(), Talk(101, 1 << 30, 800000).whole()
        a.out(1001, 6, FIN | ACK, 9004)
        self.assertClean(self.check(a, b), reuses=1)

    def test_without_timestamps(self):
        t = Talk(100, 1, 70000)
        t.out(0, 0, SYN, outer_options=b"\x02\x04\x05\xb4")
        self.assertClean(self.check(Talk(99, 7, 70000).whole(), t), without_timestamps=1)

    def test_checksums(self):
        t = Talk(100, 1, 70000).whole()
        self.assertClean(
            self.check(t, options=["--checksums"]), checksums_complete=7, checksums_partial=0
        )
        t.out(7, 7, ACK, 9004, data=b"odd", outer={"checksum": "partial"})
        self.assertClean(
            self.check(t, options=["--checksums"]), checksums_complete=7, checksums_partial=1
        )
        t.out(8, 7, ACK, 9004, data=b"odd", outer={"checksum": "wrong"})
        self.assertFinds(self.check(t, options=["--checksums"]), "bad_checksum")
        self.assertClean(self.check(t))

    def test_cut_packets_are_not_verified(self):
        t = Talk(100, 1, 70000).handshake()
        t.out(3, 1, ACK, 9001, data=bytes(200), outer={"checksum": "wrong"})
        self.assertClean(
            self.check(t, options=["--checksums"], cut=100), checksums_cut=1, checksums_complete=3
        )

    def test_link_types_and_formats(self):
        talks = lambda v6: (Talk(100, 1, 70000, v6=v6).whole(), Talk(101, 9, 60, v6=v6).whole())
        for kind in (
            {"link": 1}, {"link": "vlan"}, {"link": 101}, {"link": 113}, {"link": 276},
            {"order": ">"}, {"nanoseconds": True}, {"order": ">", "nanoseconds": True},
        ):  # fmt: skip
            for v6 in False, True:
                with self.subTest(kind=kind, v6=v6):
                    self.assertFinds(self.check(*talks(v6), **kind), "syn_not_above")

    def test_ipv6_extension_header(self):
        a, b = Talk(100, 1, 70000, v6=True).whole(), Talk(101, 9, 60, v6=True)
        b.out(0, 0, SYN, ext=b"\x06\x01" + b"\x01\x0c" + bytes(12))
        self.assertFinds(self.check(a, b), "syn_not_above")

    def test_option_places(self):
        a = Talk(100, 1, 70000).whole()
        stamp = struct.pack("!BBII", 8, 10, 60, 0)
        for options in (
            b"\x03\x03\x07" + stamp + b"\x01\x01\x01",  # odd
            b"\xfd\x06abcd" + stamp,  # after an unknown option
            struct.pack("!BBII", 8, 10, 99999999, 0) + stamp,  # the last of two
        ):
            b = Talk(101, 9, 60)
            b.out(0, 0, SYN, outer_options=options)
            with self.subTest(options=options):
                self.assertFinds(self.check(a, b), "syn_not_above")
        for options in (b"\x00" + stamp + b"\x00", b"\x05\x00" + stamp, b"\x08\x08" + stamp[2:8]):
            b = Talk(101, 9, 60)
            b.out(0, 0, SYN, outer_options=options)
            with self.subTest(options=options):
                self.assertClean(self.check(a, b), without_timestamps=1)

    def test_file_cut_while_written(self):
        self.assertClean(self.check(Talk(100, 1, 70000).whole(), cut_end=5), packets=6)

    def test_no_capture(self):
        with open(self.path("x"), "wb") as f:
            f.write(b"no pcap at all, this is plain text")
        p = subprocess.run([sys.executable, CHECKER, self.path("x")], capture_output=True)
        self.assertEqual(p.returncode, 2)

    # ---- both sides

    def test_shifted_and_unshifted(self):
        for v6 in False, True:
            result = self.compare(
                Talk(100, 1, 70000, shift=0x80001234, v6=v6).whole(),
                Talk(101, 9, 70, v6=v6).whole(),
                options=["--checksums"],
            )
            self.assertClean(
                result, connections=2, shifted_connections=1, unshifted_connections=1, compared=14,
                unmatched=0
            )

    def test_shift_varies(self):
        t = Talk(100, 1, 70000, shift=5000).handshake()
        t.out(3, 1, ACK, 9001, data=b"x", outer_options=ts(70003 + 5001, 777))
        self.assertFinds(self.compare(t), "shift_varies")
        # and one that lost its shift
        t = Talk(100, 1, 70000, shift=5000).handshake()
        t.out(3, 1, ACK, 9001, data=b"x", outer_options=ts(70003, 777))
        self.assertFinds(self.compare(t), "shift_varies")

    def test_syn_retransmission_keeps_its_shift(self):
        t = Talk(100, 1, 70000, shift=5000)
        t.out(0, 0, SYN)
        t.out(1000, 0, SYN)
        self.assertClean(self.compare(t), shifted_connections=1)
        t.out(3000, 0, SYN, outer_options=syn_ts(73000 + 4000))
        self.assertFinds(self.compare(t), "shift_varies")

    def test_echo_differs(self):
        t = Talk(100, 1, 70000, shift=5000).handshake()
        t.into(3, ACK, 1, echo=75002, inner_echo=70003)
        self.assertFinds(self.compare(t), "echo_differs")
        t = Talk(100, 1, 70000, shift=5000).handshake()
        t.into(3, ACK, 1, echo=75002, inner_echo=75002)
        self.assertFinds(self.compare(t), "echo_differs")

    def test_echo_zero_is_left_alone(self):
        t = Talk(100, 1, 70000, shift=5000).handshake()
        t.into(3, ACK, 1, echo=0, inner_echo=0)
        self.assertClean(self.compare(t))
        t.into(4, ACK, 1, seq=9002, echo=0, inner_echo=0xFFFFFFFF - 4999)
        self.assertFinds(self.compare(t), "echo_differs")

    def test_outbound_echo_is_not_ours(self):
        t = Talk(100, 1, 70000, shift=5000).handshake()
        t.out(3, 1, ACK, 9001, data=b"x", outer_options=ts(75003, 776))
        self.assertFinds(self.compare(t), "foreign_change")

    def test_foreign_changes(self):
        for shift in 0, 5000:
            for outer in {"window": 501}, {"flags": None}:
                t = Talk(100, 1, 70000, shift=shift).handshake()
                if "window" in outer:
                    t.out(3, 1, ACK, 9001, data=b"x", outer=outer)
                else:  # another order of the options, same values
                    value = struct.pack("!BBII", 8, 10, 70003 + shift, 777)
                    t.out(3, 1, ACK, 9001, data=b"x", outer_options=value + b"\x01\x01")
                with self.subTest(shift=shift, outer=outer):
                    self.assertFinds(self.compare(t), "foreign_change")

    def test_foreign_change_inbound(self):
        t = Talk(100, 1, 70000).handshake()
        t.into(3, ACK, 1, 2, seq=9002, inner_window=499)
        self.assertFinds(self.compare(t), "foreign_change")

    def test_lost_segments_are_counted(self):
        t = Talk(100, 1, 70000, shift=5000).whole()
        del t.outer[3]
        self.assertClean(self.compare(t), unmatched=1, compared=6)

    def test_equal_segments_of_which_one_was_lost(self):
        t = Talk(100, 1, 70000, shift=5000)
        t.out(0, 0, SYN)
        t.into(1, SYN | ACK, 1, 0)
        t.into(1001, SYN | ACK, 1, 0, tsval=1777)
        del t.inner[1]
        t.out(1002, 1, ACK, 9001)
        self.assertClean(self.compare(t), unmatched=1, compared=3)

    def test_connection_on_one_side_only(self):
        a, b = Talk(100, 1, 70000).whole(), Talk(100, 2, 70000, sport=40001).whole()
        b.outer = []
        self.assertClean(self.compare(a, b), only_one_side=1, connections=1)

    # ---- many

    def test_many(self):
        cap = Capture()
        template = [
            (when - 100, bytearray(packet)) for when, packet in Talk(100, 1, 0).whole().outer
        ]
        for i in range(300000 // 7 + 1):
            for ms, (when, packet) in enumerate(template):
                out = packet[12:16] == GATEWAY4
                struct.pack_into("!H", packet, 20 if out else 22, 20000 + i % 8000)
                struct.pack_into("!I", packet, 48 if packet[33] & SYN else 44, 70000 + i + ms)
                cap.add(100 + i / 1000 + when, bytes(packet))
        cap.write(self.path("server.pcap"))
        status, out = self.run_checker(self.path("server.pcap"))
        self.assertEqual(status, 0, out["examples"])
        self.assertGreaterEqual(out["packets"], 300000)


class Lines(unittest.TextTestResult):
    """One line per test, as tests/run.sh counts them."""

    def addSuccess(self, test):
        super().addSuccess(test)
        print("ok - check-capture: %s" % test.id().rsplit(".", 1)[-1], flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        print("not ok - check-capture: %s" % test.id().rsplit(".", 1)[-1], flush=True)

    addError = addFailure


if __name__ == "__main__":
    unittest.main(testRunner=unittest.TextTestRunner(resultclass=Lines, verbosity=0))
