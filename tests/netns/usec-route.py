#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""usec-route.py GATEWAY - make the IPv4 default route's connections use timestamps in microseconds
(`features tcp_usec_ts`).

Linux has this since 6.7, iproute2 since then, too; this program does not need a recent one. Exits 1
where the kernel refuses.
"""

import os
import socket
import struct
import sys

RTM_NEWROUTE, NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE = 24, 1, 4, 0x400, 0x100
RTA_GATEWAY, RTA_METRICS, RTAX_FEATURES, FEATURE_TCP_USEC_TS = 5, 8, 12, 1 << 4
RT_TABLE_MAIN, RTPROT_BOOT, RTN_UNICAST = 254, 3, 1


def attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


route = struct.pack(
    "BBBBBBBBI", socket.AF_INET, 0, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, 0, RTN_UNICAST, 0
)
route += attribute(RTA_GATEWAY, socket.inet_aton(sys.argv[1]))
route += attribute(RTA_METRICS, attribute(RTAX_FEATURES, struct.pack("I", FEATURE_TCP_USEC_TS)))
flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
sock.send(struct.pack("IHHII", 16 + len(route), RTM_NEWROUTE, flags, 1, 0) + route)
error = -struct.unpack_from("i", sock.recv(4096), 16)[0]
if error:
    sys.exit("the kernel refuses the route: %s" % os.strerror(error))
