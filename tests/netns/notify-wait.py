#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""notify-wait.py SOCKET SECONDS - a service manager's notification socket, until READY=1 comes."""

import os
import socket
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])
deadline = time.monotonic() + seconds
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.bind(path)
try:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            sys.exit("no READY=1 within %g s" % seconds)
        sock.settimeout(left)
        try:
            message = sock.recv(4096).decode(errors="replace")
        except TimeoutError:
            continue
        if "READY=1" in message.split("\n"):
            break
finally:
    os.unlink(path)
