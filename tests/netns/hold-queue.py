#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""hold-queue.py NUMBER - bind a netfilter queue, say so, and keep it without ever reading it."""

import signal
import socket
import struct
import sys

NETLINK_NETFILTER = 12
NFNL_SUBSYS_QUEUE, NFQNL_MSG_CONFIG = 3, 2
NFQA_CFG_CMD, NFQNL_CFG_CMD_BIND = 1, 1
NLM_F_REQUEST, NLM_F_ACK = 1, 4

number = int(sys.argv[1])
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
sock.bind((0, 0))
body = struct.pack("!BBH", socket.AF_UNSPEC, 0, number)
body += struct.pack("=HH", 8, NFQA_CFG_CMD) + struct.pack("!BxH", NFQNL_CFG_CMD_BIND, 0)
header = struct.pack(
    "=IHHII", 16 + len(body), NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK,
    1, 0
)
sock.send(header + body)
error = struct.unpack_from("=i", sock.recv(4096), 16)[0]
if error:
    sys.exit("the kernel refuses queue %d: error %d" % (number, error))
print("bound", flush=True)
signal.pause()
