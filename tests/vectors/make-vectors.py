#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Write segments.txt: packets of a shifted connection as they come, and as they must leave.

	./make-vectors.py > segments.txt

The expected bytes never come from tsnatd's code. Every packet is built twice with scapy: once with
the timestamps as they arrive and once with those that must leave; both times scapy computes the
checksum over the whole segment. Which timestamps change is written down by hand, per vector:
ts() is one that receivers read, dead() is one that must stay.
"""
import struct
import sys

from scapy.config import conf

conf.verb = 0
from scapy.layers.inet import (ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_RR,  # noqa: E402
                               IPOption_Router_Alert, in4_chksum)
from scapy.layers.inet6 import (IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,  # noqa: E402
                                IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, in6_chksum)
from scapy.layers.ipsec import AH, ESP  # noqa: E402
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

GATEWAY = {4: "192.0.2.1", 6: "2001:db8:1::1"}
SERVER = {4: "198.51.100.1", 6: "2001:db8:2::80"}
MAC_GATEWAY, MAC_SERVER = "02:00:00:00:00:01", "02:00:00:00:00:02"
FIN, SYN, RST, PSH, ACK, ECE, CWR, AE = 1, 2, 4, 8, 16, 64, 128, 256
SHIFT = 0x12345

NOP, EOL = b"\1", b"\0"
MSS = bytes.fromhex("020405b4")
WSCALE = bytes.fromhex("030307")
SACK_OK = bytes.fromhex("0402")
MD5 = b"\x13\x12" + bytes(range(16))
TCP_AO = b"\x1d\x10\x01\x02" + bytes(range(0xa0, 0xac))


class Timestamp:
    """A timestamp option: ts() changes with the shift, dead() does not."""

    def __init__(self, val, ecr, live):
        self.val, self.ecr, self.live = val, ecr, live

    def build(self, direction, shift):
        val, ecr = self.val, self.ecr
        if self.live and direction == "out":
            val = (val + shift) & 0xffffffff
        elif self.live:
            ecr = (ecr - shift) & 0xffffffff
        return b"\x08\x0a" + struct.pack(">II", val, ecr)


def ts(val=0x0bcdef01, ecr=0x7a5b3c1d):
    return Timestamp(val, ecr, True)


def dead(val=0x0bcdef01, ecr=0x7a5b3c1d):
    return Timestamp(val, ecr, False)


def sack(blocks):
    edges = [struct.pack(">II", 0x1000 + 0x200 * i, 0x1100 + 0x200 * i) for i in range(blocks)]
    return bytes([5, 2 + 8 * blocks]) + b"".join(edges)


def unknown(length, kind=0xfd, fill=0x5a):
    return bytes([kind, length]) + bytes([fill]) * (length - 2)


def pseudo_checksum(family, direction, data, final_dst=None):
    src, dst = GATEWAY[family], SERVER[family]
    if direction == "in":
        src, dst = dst, src
    if family == 4:
        return in4_chksum(6, IP(src=src, dst=dst), data)
    return in6_chksum(6, IPv6(src=src, dst=final_dst or dst), data)


def build_tcp(v, shift):
    opts = b"".join(o.build(v["dir"], shift) if isinstance(o, Timestamp) else o for o in v["opts"])
    if v["align"]:
        opts += b"\0" * (-len(opts) % 4)
    assert v["doff"] is not None or len(opts) % 4 == 0, v["name"]
    port = {"sport": 40000, "dport": 80} if v["dir"] == "out" else {"sport": 80, "dport": 40000}
    doff = v["doff"] if v["doff"] is not None else 5 + len(opts) // 4
    flags = v["flags"]
    tcp = TCP(seq=v["seq"], ack=v["ack"], flags=flags, window=64240, dataofs=doff, chksum=0, **port)
    data = bytearray(bytes(tcp) + opts + v["data"])
    if v["sum_to"] is not None:
        # the data's last two bytes make the checksum that leaves come out as wanted
        opts_out = b"".join(o.build(v["dir"], v["shift"]) if isinstance(o, Timestamp) else o
                            for o in v["opts"])
        probe = bytes(tcp) + opts_out + v["data"] + b"\0\0"
        have = pseudo_checksum(v["family"], v["dir"], probe)
        data += struct.pack(">H", (have - v["sum_to"]) % 0xffff)
    check = pseudo_checksum(v["family"], v["dir"], bytes(data), v["final_dst"])
    if v["sum_error"]:
        check += v["sum_error"]
        check = (check & 0xffff) + (check >> 16)
    data[16:18] = struct.pack(">H", check)
    return bytes(data)


def build_ip(v, payload):
    src, dst = GATEWAY[v["family"]], SERVER[v["family"]]
    if v["dir"] == "in":
        src, dst = dst, src
    if v["fragment"] is not None:
        start, end = v["fragment"]
        payload = payload[start:end]
    if v["family"] == 4:
        fields = dict(src=src, dst=dst, proto=6, id=1, ttl=63)
        fields.update(v["ip"])
        fields.setdefault("len", None)
        return bytes(IP(**fields) / Raw(payload))
    # from the last extension header to the first: each names the one that follows it
    nh = v["nh"]
    for ext in reversed(v["exts"]):
        payload = bytes(ext(nh)) + payload
        nh = ext.number
    fields = dict(src=src, dst=dst, nh=nh, plen=len(payload), hlim=63)
    fields.update(v["ip"])
    return bytes(IPv6(**fields) / Raw(payload))


def build(v, shift):
    packet = v["whole"] if v["whole"] is not None else build_ip(v, build_tcp(v, shift))
    packet += b"\x00" * v["pad"]
    if v["link"] == "ether":
        ends = {"src": MAC_GATEWAY, "dst": MAC_SERVER}
        if v["dir"] == "in":
            ends = {"src": MAC_SERVER, "dst": MAC_GATEWAY}
        types = list(v["vlan"]) + [v["ethertype"] or (0x0800 if v["family"] == 4 else 0x86dd)]
        frame = Ether(type=types[0], **ends)
        for n, tag in enumerate(v["vlan"]):
            frame = frame / {0x8100: Dot1Q, 0x88a8: Dot1AD}[tag](vlan=100 + n, type=types[n + 1])
        packet = bytes(frame / Raw(packet)) if packet else bytes(frame)
    return packet[:v["cut"]]


vectors = []
names = set()
DEFAULTS = dict(link="raw", dir="out", family=4, shift=SHIFT, flags=ACK, seq=0x1000, ack=0x2000,
                opts=(), data=b"hello", doff=None, align=True, sum_error=0, sum_to=None,
                final_dst=None, ip={}, exts=(), nh=6, fragment=None, vlan=(), ethertype=None, pad=0,
                cut=None, whole=None, status="tcp", reason="-")


def section(text):
    vectors.append(text)


def vector(name, **kw):
    unknown_keys = set(kw) - set(DEFAULTS)
    assert not unknown_keys, unknown_keys
    assert name not in names, name
    names.add(name)
    v = dict(DEFAULTS, name=name)
    v.update(kw)
    if v["status"] == "bad":
        v["reason"] = "passed_bad_packet"
    v["packet"], v["expect"] = build(v, 0), build(v, v["shift"])
    live = any(isinstance(o, Timestamp) and o.live for o in v["opts"])
    assert (v["packet"] != v["expect"]) == (live and v["shift"] != 0), name
    assert v["status"] == "tcp" or v["packet"] == v["expect"], name
    vectors.append(v)
    return v


def both(name, **kw):
    """IPv4 out, IPv6 in: the halves of the code that differ."""
    vector(name + "-v4-out", family=4, dir="out", **kw)
    vector(name + "-v6-in", family=6, dir="in", **kw)


def syn(name, **kw):
    kw.setdefault("flags", SYN)
    vector(name, ack=0, data=b"", **kw)


def ext(number, make):
    def f(nh):
        return make(nh)
    f.number = number
    return f


HOP = ext(0, lambda nh: IPv6ExtHdrHopByHop(nh=nh, options=[PadN(optdata=b"\0" * 4)]))
HOP_LONG = ext(0, lambda nh: IPv6ExtHdrHopByHop(nh=nh, options=[PadN(optdata=b"\0" * 28)]))
DEST = ext(60, lambda nh: IPv6ExtHdrDestOpt(nh=nh, options=[PadN(optdata=b"\0" * 4)]))
DEST_LONG = ext(60, lambda nh: IPv6ExtHdrDestOpt(nh=nh, options=[PadN(optdata=b"\0" * 252)]))
MOBILITY = ext(135, lambda nh: Raw(bytes([nh, 0, 0, 0, 0, 0, 1, 4])))
AH_12 = ext(51, lambda nh: AH(nh=nh, payloadlen=4, spi=1, seq=1, icv=b"\xaa" * 12))
AH_16 = ext(51, lambda nh: AH(nh=nh, payloadlen=5, spi=1, seq=1, icv=b"\xbb" * 16))
ATOMIC = ext(44, lambda nh: IPv6ExtHdrFragment(nh=nh, offset=0, m=0, id=7))
FIRST = ext(44, lambda nh: IPv6ExtHdrFragment(nh=nh, offset=0, m=1, id=7))
LATER = ext(44, lambda nh: IPv6ExtHdrFragment(nh=nh, offset=8, m=0, id=7))
UNKNOWN = ext(253, lambda nh: Raw(bytes([nh, 0]) + b"\0" * 6))
HIP = ext(139, lambda nh: Raw(bytes([nh, 0]) + b"\0" * 6))


def routing(segleft, addresses=(), kind=4):
    return ext(43, lambda nh: IPv6ExtHdrRouting(nh=nh, type=kind, segleft=segleft,
                                                addresses=list(addresses)))


USUAL = (NOP, NOP, ts())


def usual_segments():
    section("the usual segment: NOP NOP timestamp")
    for family in (4, 6):
        for direction in ("out", "in"):
            for link in ("raw", "ether"):
                vector(f"usual-v{family}-{direction}-{link}", family=family, dir=direction,
                       link=link, opts=USUAL)
    both("no-data", opts=USUAL, data=b"")
    both("odd-data", opts=USUAL, data=b"x")
    both("long-data", opts=USUAL, data=bytes(range(256)) * 5)
    both("fin", opts=USUAL, flags=FIN | ACK)
    both("push", opts=USUAL, flags=PSH | ACK)
    both("ece-cwr-ae", opts=USUAL, flags=AE | CWR | ECE | ACK)
    both("no-options", opts=())
    both("shift-0", opts=USUAL, shift=0)


def offsets():
    section("the timestamp at every place in the header")
    for n in range(31):
        vector(f"at-{n:02}-v4-out", opts=(NOP * n, ts(0xdeadbeef, 0x01020304)))
        vector(f"at-{n:02}-v6-in", family=6, dir="in", opts=(NOP * n, ts(0xdeadbeef, 0x01020304)))
    v = vector("odd-offset-syn", flags=SYN, seq=1, ack=0, data=b"",
               opts=(WSCALE, ts(0xffffff00, 0), bytes.fromhex("0101020405b4")))
    # known from elsewhere
    assert v["packet"][36:38].hex() == "0e03" and v["expect"][36:38].hex() == "c8df"


def arithmetic():
    section("serial arithmetic: the shift adds modulo 2^32")
    both("shift-1", opts=USUAL, shift=1)
    both("shift-minus-1", opts=USUAL, shift=0xffffffff)
    both("shift-half", opts=USUAL, shift=0x80000000)
    both("shift-low-half-only", opts=USUAL, shift=0xffff)
    both("shift-high-half-only", opts=USUAL, shift=0xffff0000)
    vector("wrap-out", opts=(NOP, NOP, ts(0xffffff00, 1)))
    vector("wrap-in", dir="in", opts=(NOP, NOP, ts(1, 0x10)))
    vector("to-zero-out", opts=(NOP, NOP, ts(0xfffedcbb, 1)))
    vector("to-zero-in", dir="in", opts=(NOP, NOP, ts(1, 0x12345)))
    vector("to-all-ones-out", opts=(NOP, NOP, ts(0xfffedcba, 1)))
    vector("from-all-ones-out", opts=(NOP, NOP, ts(0xffffffff, 1)), shift=1)
    vector("from-zero-out", opts=(NOP, NOP, ts(0, 1)))
    vector("from-zero-odd-out", opts=(NOP, ts(0, 1)))
    section("checksums at the ends of their range, and wrong ones, which stay wrong by as much")
    for n in (1, 2):
        at = "odd" if n == 1 else "even"
        for want in (0, 1, 0xfffe):
            for family in (4, 6):
                v = vector(f"sum-{want:04x}-{at}-v{family}", family=family, data=b"hi", sum_to=want,
                           opts=(NOP * n, ts(), NOP * (2 - n)))
                tcp = 20 if family == 4 else 40
                assert v["expect"][tcp + 16:tcp + 18] == struct.pack(">H", want)
    both("sum-wrong-by-1", opts=USUAL, sum_error=1)
    both("sum-wrong-by-4660", opts=(NOP, ts()), sum_error=0x1234)


def several():
    section("repeated timestamps: all are changed")
    both("two", opts=(NOP, NOP, ts(), NOP, NOP, ts(0x11111111, 0x22222222)))
    both("two-equal", opts=(ts(), ts()))
    both("three", opts=(ts(1, 0xa0000001), NOP, ts(2, 0xa0000002), NOP, ts(3, 0xa0000003)))
    both("four", opts=tuple(ts(i, 0xa0000000 + i) for i in range(1, 5)))
    vector("two-first-echo-zero-in", dir="in", opts=(dead(1, 0), NOP, ts(2, 0xa0000000)))
    vector("two-last-echo-zero-in", dir="in", opts=(ts(1, 0xa0000000), NOP, dead(2, 0)))
    syn("syn-two", opts=(ts(5, 0), ts(7, 0)))


def end_of_list():
    section("nothing behind the end of the list is an option")
    both("after-eol", opts=(NOP, EOL, dead()))
    both("before-eol", opts=(ts(), EOL))
    both("before-and-after-eol", opts=(ts(), EOL, NOP, dead(3, 4)))
    both("garbage-after-eol", opts=(ts(), EOL, b"\x08\x00\x13\x01\xff"))
    both("md5-after-eol", opts=(ts(), NOP, EOL, MD5))
    syn("syn-after-eol", opts=(MSS, EOL, dead()), reason="passed_no_timestamp")


def other_lengths():
    section("kind 8 of another length is no timestamp")
    for n in (2, 3, 6, 8, 9, 11, 12, 18):
        both(f"kind-8-length-{n}", opts=(unknown(n, kind=8),))
    both("kind-8-length-8-then-ts", opts=(unknown(8, kind=8), ts()))
    both("ts-then-kind-8-length-12", opts=(ts(), unknown(12, kind=8)))
    syn("syn-kind-8-length-8", opts=(MSS, unknown(8, kind=8)), reason="passed_no_timestamp")


def malformed():
    section("malformed options: the walk stops there; what it found before is what receivers read")
    bad = dict(reason="passed_bad_option", align=False)
    both("length-0", opts=(b"\x50\x00\x00\x00",), **bad)
    both("length-0-mss", opts=(b"\x02\x00\x01\x01",), **bad)
    both("length-1", opts=(b"\x02\x01\x01\x01",), **bad)
    both("length-1-ts", opts=(b"\x08\x01\x01\x01",), **bad)
    both("length-beyond", opts=(b"\x02\x05\x05\xb4",), **bad)
    both("length-255", opts=(b"\xfd\xff" + b"\x5a" * 38,), **bad)
    both("length-41-of-40", opts=(b"\xfd\x29" + b"\x5a" * 38,), **bad)
    both("kind-in-last-byte", opts=(NOP * 3, b"\x08"), **bad)
    both("kind-in-byte-40", opts=(NOP * 39, b"\x08"), **bad)
    both("ts-cut-by-header", opts=(NOP * 3, b"\x08\x0a" + b"\x11" * 7), data=b"\x22more", **bad)
    both("ts-cut-at-40", opts=(NOP * 31, b"\x08\x0a" + b"\x11" * 7), data=b"\x22more", **bad)
    both("bad-then-ts", opts=(b"\x02\x00", dead()), **bad)
    both("length-1-then-ts", opts=(b"\xfe\x01", dead()), **bad)
    both("ts-then-bad", opts=(ts(), b"\x02\x00"), **bad)
    both("ts-then-length-1", opts=(ts(), b"\x02\x01"), **bad)
    both("ts-then-beyond", opts=(ts(), b"\x02\x09"), **bad)
    both("ts-bad-ts", opts=(ts(), NOP, b"\x08\x00", NOP, dead(1, 2)), **bad)
    both("ts-bad-md5", opts=(ts(), b"\x02\x00", MD5, EOL, EOL), **bad)
    syn("syn-length-0", opts=(b"\x50\x00\x00\x00",), **bad)
    syn("syn-ts-then-bad", opts=(dead(), b"\x02\x00"), **bad)
    syn("syn-bad-then-ts", opts=(b"\x02\x00", dead()), **bad)
    syn("syn-ts-then-bad-v6", family=6, opts=(MSS, dead(), b"\x03\x0f"), **bad)


def authenticated():
    section("MD5 (19) and TCP-AO (29) sign the header: nothing in it may change")
    both("md5-then-ts", opts=(MD5, dead()))
    both("ts-then-md5", opts=(NOP, NOP, dead(), NOP, NOP, MD5))
    both("tcp-ao-then-ts", opts=(TCP_AO, dead()))
    both("ts-then-tcp-ao", opts=(dead(), TCP_AO))
    both("md5-of-odd-length", opts=(b"\x13\x03\x00", dead()))
    both("tcp-ao-shortest", opts=(b"\x1d\x04\x01\x02", dead()))
    both("md5-alone", opts=(MD5,))
    for family in (4, 6):
        syn(f"syn-md5-v{family}", family=family, opts=(MSS, MD5, dead()),
            reason="passed_auth_option")
        syn(f"syn-tcp-ao-v{family}", family=family, opts=(MSS, dead(), TCP_AO),
            reason="passed_auth_option")
    syn("syn-md5-alone", opts=(MSS, MD5), reason="passed_auth_option")


def beside_others():
    section("beside other options")
    for n in (1, 2, 3):
        both(f"sack-{n}", opts=(NOP, NOP, ts(), NOP, NOP, sack(n)))
    both("sack-before", opts=(NOP, NOP, sack(3), NOP, NOP, ts()))
    both("sack-4-alone", opts=(NOP, NOP, sack(4)))
    both("unknown-before-odd", opts=(unknown(3), ts()))
    both("unknown-before-even", opts=(unknown(4, kind=0xfe), ts()))
    both("unknown-many", opts=tuple(unknown(2, kind=0x40 + i) for i in range(15)) + (ts(),))
    both("unknown-30", opts=(unknown(30), ts()))
    both("unknown-holds-ts", opts=(unknown(2 + 10, kind=0xfd, fill=8), ts()))
    both("unknown-is-ts-inside", opts=(b"\xfd\x0c\x08\x0a\x01\x02\x03\x04\x05\x06\x07\x08",))
    dss = bytes.fromhex("1e14200102030405060708090000000100000002")
    both("mptcp-dss", opts=(NOP, NOP, ts(), dss))
    both("mptcp-add-addr", opts=(bytes.fromhex("1e083001c0000209"), ts()))
    section("SYNs as systems in the field send them")
    syn("syn-linux", opts=(MSS, SACK_OK, ts(3735928559, 0), NOP, WSCALE))
    syn("syn-linux-v6", family=6, opts=(MSS, SACK_OK, ts(3735928559, 0), NOP, WSCALE))
    syn("syn-linux-ether", link="ether", opts=(MSS, SACK_OK, ts(3735928559, 0), NOP, WSCALE))
    syn("syn-macos", opts=(MSS, NOP, WSCALE, NOP, NOP, ts(77, 0), SACK_OK, EOL, EOL))
    syn("syn-freebsd", opts=(MSS, NOP, WSCALE, SACK_OK, ts(77, 0)))
    syn("syn-windows", opts=(MSS, NOP, WSCALE, NOP, NOP, SACK_OK), reason="passed_no_timestamp")
    syn("syn-bare", opts=(), reason="passed_no_timestamp")
    syn("syn-bare-v6-ether", link="ether", family=6, opts=(), reason="passed_no_timestamp")
    syn("syn-xp", opts=(MSS, NOP, WSCALE, NOP, NOP, dead(0, 0), NOP, NOP, SACK_OK),
        reason="passed_zero_timestamp")
    syn("syn-zero-v6", family=6, opts=(NOP, NOP, dead(0, 0)), reason="passed_zero_timestamp")
    syn("syn-last-of-two-zero", opts=(dead(5, 0), dead(0, 0)), reason="passed_zero_timestamp")
    syn("syn-first-of-two-zero", opts=(ts(0, 0), ts(5, 0)))
    syn("syn-echo-not-zero", opts=(MSS, SACK_OK, ts(9, 0x55555555), NOP, WSCALE))
    syn("syn-mptcp", opts=(MSS, SACK_OK, ts(9, 0), NOP, WSCALE, bytes.fromhex("1e040181")))
    syn("syn-mptcp-join", opts=(MSS, ts(9, 0), NOP, NOP, bytes.fromhex("1e0c1001deadbeef01020304"),
                                SACK_OK))
    syn("syn-tfo-empty", opts=(MSS, SACK_OK, ts(9, 0), NOP, WSCALE, b"\x22\x02"))
    cookie = b"\x22\x0a\x01\x02\x03\x04\x05\x06\x07\x08"
    syn("syn-tfo-cookie", opts=(MSS, ts(9, 0), cookie, NOP, WSCALE))
    vector("syn-tfo-data", flags=SYN, ack=0, data=b"GET / HTTP/1.0\r\n\r\n",
           opts=(MSS, ts(9, 0), cookie, NOP, WSCALE))
    syn("syn-tfo-looks-like-ts", opts=(MSS, b"\x22\x08\x08\x0a\x11\x22\x33\x44"),
        reason="passed_no_timestamp")
    syn("syn-tfo-looks-like-ts-and-ts", opts=(MSS, b"\x22\x08\x08\x0a\x11\x22\x33\x44", ts(9, 0)))
    for kind in (253, 254):
        syn(f"syn-tfo-experiment-{kind}",
            opts=(MSS, bytes([kind, 12]) + b"\xf9\x89\x08\x0a\x11\x22\x33\x44\x55\x66", ts(9, 0)))
        syn(f"syn-experiment-{kind}-alone",
            opts=(MSS, bytes([kind, 12]) + b"\x08\x0a\x11\x22\x33\x44\x55\x66\x77\x88"),
            reason="passed_no_timestamp")


def flags():
    section("flags: what is a SYN, and which echoes mean something")
    syn("syn-ecn", flags=SYN | ECE | CWR, opts=(NOP, NOP, ts(9, 0)))
    syn("syn-accecn", flags=SYN | ECE | CWR | AE, opts=(NOP, NOP, ts(9, 0)))
    syn("syn-push-urg", flags=SYN | PSH | 32, opts=(NOP, NOP, ts(9, 0)))
    # not a SYN, so part of a connection
    vector("syn-fin-out", flags=SYN | FIN, opts=(NOP, NOP, ts(0, 0)))
    vector("syn-rst-out", flags=SYN | RST, opts=(NOP, NOP, ts(0, 0)))
    vector("syn-ack-out", flags=SYN | ACK, opts=(MSS, SACK_OK, ts(), NOP, WSCALE))
    for family in (4, 6):
        vector(f"syn-ack-in-v{family}", family=family, dir="in", flags=SYN | ACK, data=b"",
               ack=0x1001, opts=(MSS, SACK_OK, ts(), NOP, WSCALE))
    vector("syn-ack-echo-zero-in", dir="in", flags=SYN | ACK, data=b"",
           opts=(MSS, SACK_OK, dead(1, 0), NOP, WSCALE))
    vector("syn-ack-ecn-in", dir="in", flags=SYN | ACK | ECE, data=b"", opts=(MSS, ts(), NOP, NOP))
    vector("syn-in", dir="in", flags=SYN, ack=0, data=b"", opts=(NOP, NOP, dead(9, 0x55555555)))
    vector("syn-in-echo-zero", dir="in", flags=SYN, ack=0, data=b"", opts=(NOP, NOP, dead(9, 0)))
    vector("syn-in-bad-option", dir="in", flags=SYN, ack=0, data=b"", opts=(b"\x02\x00", dead()),
           align=False, reason="passed_bad_option")
    vector("ack-echo-zero-in", dir="in", opts=(NOP, NOP, dead(9, 0)))
    vector("ack-echo-zero-in-v6", family=6, dir="in", opts=(NOP, NOP, dead(9, 0)))
    vector("ack-echo-zero-out", opts=(NOP, NOP, ts(9, 0)))
    vector("ack-value-zero-out", opts=(NOP, NOP, ts(0, 9)))
    vector("no-flags-out", flags=0, opts=USUAL)
    vector("no-flags-in", dir="in", flags=0, opts=(NOP, NOP, dead()))
    vector("fin-without-ack-in", dir="in", flags=FIN, opts=(NOP, NOP, dead()))
    for family in (4, 6):
        f = dict(family=family, data=b"")
        vector(f"rst-ack-out-v{family}", flags=RST | ACK, opts=USUAL, **f)
        vector(f"rst-ack-in-v{family}", dir="in", flags=RST | ACK, opts=USUAL, **f)
        vector(f"rst-out-v{family}", flags=RST, ack=0, opts=(NOP, NOP, ts(9, 0)), **f)
        vector(f"rst-in-v{family}", dir="in", flags=RST, ack=0, opts=(NOP, NOP, dead()), **f)
        vector(f"rst-no-ts-out-v{family}", flags=RST, ack=0, **f)
        vector(f"rst-no-ts-in-v{family}", dir="in", flags=RST | ACK, **f)


def links():
    section("VLAN tags in band, and frames that are none of ours")
    tags = {"vlan": (0x8100,), "qinq": (0x88a8, 0x8100), "vlan-vlan": (0x8100, 0x8100),
            "88a8": (0x88a8,)}
    for name, vlan in tags.items():
        for family in (4, 6):
            for direction in ("out", "in"):
                vector(f"{name}-v{family}-{direction}", link="ether", vlan=vlan, family=family,
                       dir=direction, opts=USUAL)
    syn("vlan-syn", link="ether", vlan=(0x8100,), opts=(MSS, ts(9, 0), NOP, NOP))
    other = dict(link="ether", status="other")
    vector("vlan-3-tags", vlan=(0x88a8, 0x8100, 0x8100), opts=(NOP, NOP, dead()), **other)
    arp = bytes(ARP(op=1, hwsrc=MAC_GATEWAY, psrc=GATEWAY[4], hwdst="00:00:00:00:00:00",
                    pdst=SERVER[4]))
    vector("arp", whole=arp, ethertype=0x0806, **other)
    vector("vlan-arp", whole=arp, ethertype=0x0806, vlan=(0x8100,), **other)
    vector("pppoe", opts=(NOP, NOP, dead()), ethertype=0x8864, **other)
    vector("mpls", opts=(NOP, NOP, dead()), ethertype=0x8847, **other)
    vector("length-field", opts=(NOP, NOP, dead()), ethertype=0x0040, **other)
    vector("vlan-cut", vlan=(0x8100,), cut=16, opts=(NOP, NOP, dead()), **other)
    vector("qinq-cut", vlan=(0x88a8, 0x8100), cut=20, opts=(NOP, NOP, dead()), **other)
    section("frames padded to Ethernet's least size, and trailers")
    vector("padded-v4-out", link="ether", opts=USUAL, data=b"", pad=6)
    vector("padded-v4-in", link="ether", dir="in", opts=USUAL, data=b"", pad=6)
    vector("trailer-v6-out", link="ether", family=6, opts=USUAL, pad=9)
    vector("padded-no-options", link="ether", data=b"", pad=6)


def ipv4():
    section("IPv4 headers")
    for ihl in range(5, 16):
        opts = [IPOption_NOP()] * (4 * (ihl - 5))
        vector(f"ihl-{ihl:02}-out", ip={"options": opts}, opts=USUAL)
        vector(f"ihl-{ihl:02}-in-ether", link="ether", dir="in", ip={"options": opts},
               opts=(NOP, ts()))
    vector("router-alert-out", ip={"options": [IPOption_Router_Alert()]}, opts=USUAL)
    record_route = IPOption_RR(length=39, pointer=4, routers=["0.0.0.0"] * 9)
    vector("record-route-out", ip={"options": [record_route]}, opts=USUAL)
    for ihl in range(5):
        vector(f"ihl-{ihl:02}", ip={"ihl": ihl}, opts=(NOP, NOP, dead()), status="bad")
        vector(f"ihl-{ihl:02}-ether-in", link="ether", dir="in", ip={"ihl": ihl},
               opts=(NOP, NOP, dead()), status="bad")
    vector("ihl-beyond-packet", ip={"ihl": 15}, opts=(), data=b"", status="bad")
    vector("ihl-beyond-total", ip={"ihl": 15, "len": 40}, opts=(NOP, NOP, dead()), data=b"x" * 60,
           status="bad")
    vector("tos-ttl-df", ip={"tos": 0xb8, "ttl": 1, "flags": "DF"}, opts=USUAL)
    vector("reserved-flag", ip={"flags": 4}, opts=USUAL)
    vector("total-0-out", ip={"len": 0}, opts=USUAL)
    vector("total-0-in", dir="in", ip={"len": 0}, opts=USUAL)
    vector("total-beyond-packet", ip={"len": 1500}, opts=USUAL)
    vector("total-19", ip={"len": 19}, opts=(NOP, NOP, dead()), status="bad")
    vector("total-cuts-tcp-header", ip={"len": 30}, opts=(NOP, NOP, dead()), status="bad")
    vector("total-cuts-options", ip={"len": 48}, opts=(NOP, NOP, dead()), status="bad")
    vector("total-ends-with-options", ip={"len": 52}, opts=USUAL, data=b"")
    for version in (0, 5, 15):
        vector(f"version-{version}", ip={"version": version}, opts=(NOP, NOP, dead()),
               status="other")
    inner = bytes(IP(src="10.0.0.1", dst="10.0.0.2", id=1) / TCP(flags="A"))
    udp = bytes(UDP(sport=40000, dport=80) / Raw(b"x" * 40))
    for name, proto, data in (("icmp", 1, bytes(ICMP())), ("udp", 17, udp), ("ipip", 4, inner),
                              ("gre", 47, b"\0\0\x08\0" + inner)):
        vector(f"v4-{name}", status="other",
               whole=bytes(IP(src=GATEWAY[4], dst=SERVER[4], proto=proto, id=1) / Raw(data)))
    vector("total-19-udp", ip={"len": 19, "proto": 17}, opts=(NOP, NOP, dead()), status="bad")
    vector("v4-sctp-looks-like-tcp", ip={"proto": 132}, opts=(NOP, NOP, dead()), status="other")
    vector("v4-ah", ip={"proto": 51}, opts=(NOP, NOP, dead()), status="other")

    section("IPv4 fragments: the first has the header, the later ones only look as if")
    data = bytes(range(100))
    vector("first-fragment-out", ip={"flags": "MF"}, fragment=(0, 64), data=data, opts=USUAL)
    vector("first-fragment-in", dir="in", ip={"flags": "MF"}, fragment=(0, 64), data=data,
           opts=(NOP, ts()))
    vector("first-fragment-header-only", ip={"flags": "MF"}, fragment=(0, 32), data=data,
           opts=USUAL)
    vector("first-fragment-cuts-options", ip={"flags": "MF"}, fragment=(0, 24), data=data,
           opts=(NOP, NOP, dead()), status="bad")
    vector("first-fragment-of-8", ip={"flags": "MF"}, fragment=(0, 8), data=data,
           opts=(NOP, NOP, dead()), status="bad")
    for off in (1, 2, 8, 0x1fff):
        vector(f"later-fragment-{off}", ip={"frag": off}, flags=SYN, ack=0, opts=(NOP, NOP, dead()),
               status="other")
    vector("later-fragment-more", ip={"frag": 8, "flags": "MF"}, opts=(NOP, NOP, dead()),
           status="other")
    vector("later-fragment-in", dir="in", ip={"frag": 8}, opts=(NOP, NOP, dead()), status="other")
    vector("later-fragment-ether", link="ether", ip={"frag": 8}, opts=(NOP, NOP, dead()),
           status="other")


def ipv6():
    section("IPv6 extension headers that are looked through")
    chains = {
        "hop-by-hop": (HOP,), "hop-by-hop-long": (HOP_LONG,), "destination": (DEST,),
        "destination-long": (DEST_LONG,), "routing": (routing(0, ["2001:db8:9::9"]),),
        "routing-empty": (routing(0),), "ah-12": (AH_12,), "ah-16": (AH_16,),
        "mobility": (MOBILITY,), "atomic-fragment": (ATOMIC,),
        "hop-ah": (HOP, AH_12), "ah-destination": (AH_12, DEST), "hop-fragment": (HOP, ATOMIC),
        "all": (HOP, DEST, routing(0, ["2001:db8:9::9"]), ATOMIC, AH_12, DEST),
        "chain-of-8": (HOP,) + (DEST,) * 7,
    }
    for name, exts in chains.items():
        for direction in ("out", "in"):
            vector(f"v6-{name}-{direction}", family=6, dir=direction, exts=exts, opts=USUAL)
    vector("v6-all-ether-out", link="ether", family=6, exts=chains["all"], opts=(NOP, ts()))
    vector("v6-all-vlan-in", link="ether", vlan=(0x8100,), family=6, dir="in", exts=chains["all"],
           opts=(NOP, ts()))
    syn("v6-hop-syn", family=6, exts=(HOP,), opts=(MSS, SACK_OK, ts(9, 0), NOP, WSCALE))
    syn("v6-ah-syn-zero", family=6, exts=(AH_12,), opts=(NOP, NOP, dead(0, 0)),
        reason="passed_zero_timestamp")
    # the checksum covers the last address of the route, the connection is the header's
    vector("v6-routing-segments-left", family=6, exts=(routing(1, ["2001:db8:9::9"], kind=0),),
           final_dst="2001:db8:9::9", opts=USUAL)
    vector("v6-jumbo-length-0-out", family=6, ip={"plen": 0}, opts=USUAL)
    vector("v6-jumbo-length-0-in", family=6, dir="in", ip={"plen": 0}, opts=(NOP, ts()))
    vector("v6-length-beyond-packet", family=6, ip={"plen": 1400}, opts=USUAL)
    vector("v6-traffic-class", family=6, ip={"tc": 0xff, "fl": 0xfffff, "hlim": 1}, opts=USUAL)

    section("IPv6 that is not, or not visibly, TCP")
    other = dict(family=6, opts=(NOP, NOP, dead()), status="other")
    vector("v6-chain-of-9", exts=(HOP,) + (DEST,) * 8, **other)
    vector("v6-chain-of-16", exts=(DEST,) * 16, **other)
    vector("v6-unknown-header", exts=(UNKNOWN,), **other)
    vector("v6-hip", exts=(HIP,), **other)
    vector("v6-hop-unknown", exts=(HOP, UNKNOWN), **other)
    vector("v6-no-next-header", nh=59, **other)
    vector("v6-hop-no-next-header", exts=(HOP,), nh=59, **other)
    vector("v6-udp", nh=17, **other)
    vector("v6-in-v6", nh=41, **other)
    vector("v6-chain-of-8-udp", exts=(DEST,) * 8, nh=17, **other)
    esp = bytes(ESP(spi=1, seq=1, data=b"\x5a" * 48))
    vector("v6-esp", family=6, status="other",
           whole=bytes(IPv6(src=GATEWAY[6], dst=SERVER[6], nh=50, plen=len(esp)) / Raw(esp)))
    vector("v4-esp", status="other",
           whole=bytes(IP(src=GATEWAY[4], dst=SERVER[4], proto=50, id=1) / Raw(esp)))
    vector("v6-version-5", ip={"version": 5}, **other)

    section("IPv6 fragments")
    data = bytes(range(100))
    vector("v6-first-fragment-out", family=6, exts=(FIRST,), fragment=(0, 64), data=data,
           opts=USUAL)
    vector("v6-first-fragment-in", family=6, dir="in", exts=(HOP, FIRST), fragment=(0, 64),
           data=data, opts=(NOP, ts()))
    vector("v6-first-fragment-cuts-options", family=6, exts=(FIRST,), fragment=(0, 24), data=data,
           opts=(NOP, NOP, dead()), status="bad")
    vector("v6-later-fragment", exts=(LATER,), flags=SYN, ack=0, **other)
    vector("v6-later-fragment-in", dir="in", exts=(LATER,), **other)
    vector("v6-hop-later-fragment", exts=(HOP, LATER), **other)
    vector("v6-later-fragment-destination", exts=(LATER, DEST), **other)

    section("IPv6 with impossible lengths")
    bad = dict(family=6, opts=(NOP, NOP, dead()), status="bad")
    vector("v6-length-cuts-options", ip={"plen": 24}, **bad)
    vector("v6-length-cuts-header", ip={"plen": 12}, **bad)
    vector("v6-length-1", ip={"plen": 1}, **bad)
    far = ext(60, lambda nh: Raw(bytes([nh, 255]) + b"\0" * 6))
    vector("v6-extension-beyond", exts=(far,), **bad)
    far_hop = ext(0, lambda nh: Raw(bytes([60, 200]) + b"\0" * 6))
    vector("v6-extension-beyond-then-dest", exts=(far_hop,), **bad)
    vector("v6-ah-beyond", exts=(ext(51, lambda nh: Raw(bytes([nh, 255]) + b"\0" * 6)),), **bad)
    vector("v6-extension-leaves-no-room", exts=(HOP_LONG,), ip={"plen": 40}, **bad)


def cuts():
    section("segments cut short: without whole headers nothing is known of them")
    usual4 = dict(opts=(NOP, NOP, dead()), status="bad")
    for n in (0, 1, 5, 9, 13, 14, 15, 19, 20, 21, 33, 39, 40, 41, 44, 45, 49, 51):
        vector(f"cut-{n:02}-v4", cut=n, **usual4)
    for n in (1, 13, 14, 39, 40, 59, 60, 61, 64, 71):
        vector(f"cut-{n:02}-v6", family=6, cut=n, **usual4)
    for n in (14, 15, 33, 34, 35, 53, 54, 65):
        vector(f"cut-{n:02}-v4-ether", link="ether", cut=n, **usual4)
    for n in (14, 53, 54, 73, 74, 85):
        vector(f"cut-{n:02}-v6-ether", link="ether", family=6, dir="in", cut=n, **usual4)
    for n in (0, 6, 12, 13):
        vector(f"cut-{n:02}-frame", link="ether", cut=n, opts=(NOP, NOP, dead()), status="other")
    for n in (40, 43, 44, 47, 48, 79):
        vector(f"cut-{n:02}-v6-extension", family=6, exts=(HOP,), cut=n, **usual4)
    # whole headers, cut data: enough
    vector("cut-data-v4-out", opts=USUAL, cut=52)
    vector("cut-data-v4-in-ether", link="ether", dir="in", opts=USUAL, cut=69)
    vector("cut-data-v6-out", family=6, opts=USUAL, cut=74)
    section("data offsets")
    for doff in range(5):
        for family in (4, 6):
            vector(f"doff-{doff}-v{family}", family=family, doff=doff, opts=(NOP, NOP, dead()),
                   status="bad")
    vector("doff-5-over-options", doff=5, opts=(NOP, NOP, dead()))
    vector("doff-7-cuts-ts", doff=7, opts=(NOP, NOP, dead()), reason="passed_bad_option")
    vector("doff-15-into-data", doff=15, opts=USUAL, data=NOP * 28)
    for family in (4, 6):
        f = dict(family=family, opts=(NOP, NOP, dead()), data=b"", status="bad")
        vector(f"doff-9-beyond-v{family}", doff=9, **f)
        vector(f"doff-15-beyond-v{family}", doff=15, **f)
        vector(f"doff-9-into-padding-v{family}", link="ether", doff=9, pad=30, **f)
        vector(f"syn-doff-4-v{family}", doff=4, flags=SYN, **f)


HEADER = """\
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Packets of a shifted connection, as they come and as they must leave. Made by make-vectors.py.
#
#	name	of the vector
#	link	ether: starts with an Ethernet header; raw: with the network header
#	dir	out: TSval += shift; in: TSecr -= shift
#	shift
#	is	the parser's word: tcp, other (not TCP, a later fragment), bad (lengths)
#	count	the counter that grows because the packet or its SYN was not understood, or -
#	packet	as it comes
#	expect	as it leaves, or "unchanged"
#
# The connection is 192.0.2.1:40000 -> 198.51.100.1:80, or 2001:db8:1::1 -> 2001:db8:2::80 with the
# same ports. A packet that the parser stops at is sent through all the same: nothing may change. An
# out SYN gets its shift by a decision; one with a reason to pass leaves as it came.
"""


def main():
    for make in (usual_segments, offsets, arithmetic, several, end_of_list, other_lengths,
                 malformed, authenticated, beside_others, flags, links, ipv4, ipv6, cuts):
        make()
    out = [HEADER]
    for v in vectors:
        if isinstance(v, str):
            out.append(f"\n### {v}\n")
            continue
        expect = "unchanged" if v["packet"] == v["expect"] else v["expect"].hex()
        out.append(f"\nname {v['name']}\nlink {v['link']}\ndir {v['dir']}\n"
                   f"shift 0x{v['shift']:08x}\nis {v['status']}\ncount {v['reason']}\n"
                   f"packet {v['packet'].hex() or '-'}\n"
                   f"expect {expect}\n")
    sys.stdout.write("".join(out))


main()
