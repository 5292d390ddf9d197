#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
Write the vectors as seeds for fuzz-packet, one file each.

	./make-seeds.py SEGMENTS.TXT DIRECTORY
"""
import os
import sys

source, target = sys.argv[1:]
os.makedirs(target, exist_ok=True)
fields = {}
with open(source, encoding="ascii") as f:
    for line in f:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        fields[words[0]] = words[1]
        if words[0] == "expect":
            flags = (fields["dir"] == "in") | (fields["link"] == "ether") << 1
            flags |= len(fields["name"]) % 2 << 2
            packet = fields["packet"].replace("-", "")
            with open(os.path.join(target, fields["name"]), "wb") as seed:
                seed.write(bytes([flags]) + int(fields["shift"], 16).to_bytes(4, "big")
                           + bytes.fromhex(packet))
