#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tun-wire.py NETNS DEVICE NETNS DEVICE - two tun devices with a wire between them, for as long as
it runs. Namespaces are paths.
"""

import ctypes
import fcntl
import os
import select
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
CLONE_NEWNET = 0x40000000


def tun(netns, device):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(netns) as ns:
        if libc.setns(ns.fileno(), CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), netns)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def move(source, to):
    try:
        while True:
            packet = os.read(source, 65536)
            try:
                os.write(to, packet)
            except OSError:
                pass  # the other end is down, or full: as a wire loses packets
    except BlockingIOError:
        pass
    except OSError:
        pass  # this end is down


def main():
    a, b = tun(*sys.argv[1:3]), tun(*sys.argv[3:5])
    print("wired", flush=True)
    while True:
        for fd in select.select([a, b], [], [])[0]:
            move(fd, b if fd == a else a)


main()
