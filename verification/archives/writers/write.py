"""Writes archives by Python's tarfile.

Each line of the input is an archive and its members, between tabs: of each the name, the type, the mode, owner and group, and
records in hexadecimal.
"""

import sys
import tarfile

TYPES = {
    "directory": tarfile.DIRTYPE,
    "file": tarfile.REGTYPE,
    "fifo": tarfile.FIFOTYPE,
    "symlink": tarfile.SYMTYPE,
}


def member(text):
    name, kind, mode, uid, gid, *records = text.split(" ")
    info = tarfile.TarInfo(name)
    info.type = TYPES[kind]
    info.mode = int(mode, 8)
    info.uid, info.gid = int(uid), int(gid)
    if kind == "symlink":
        info.linkname = "target"
    for record in records:
        key, value = record.split("=")
        key = bytes.fromhex(key).decode()
        info.pax_headers[key] = bytes.fromhex(value).decode("utf-8", "surrogateescape")
    return info


for line in sys.stdin:
    archive, *members = line.rstrip("\n").split("\t")
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for text in members:
            tar.addfile(member(text))
    print("done", flush=True)
