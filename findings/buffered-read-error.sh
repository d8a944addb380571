#!/usr/bin/env bash
# CPython 3.11.7, io.BufferedReader: a read(n) that fails has moved on all the same, so that trying again skips bytes without an
# error.
# read(n) of more than the buffer calls the raw file several times. If a later call raises (EIO or a time-out of a network file
# system that is over a moment later), what the earlier calls and the buffer gave is thrown away, but the position is behind it: the
# next read() goes on from there. One expects a failed read to leave the position, or as fread() of C does to hand out what there
# was. Who tries again must seek() to where he was.
set -euo pipefail
python3 - <<'P'
import errno, io, platform, sys

data = b"".join(b"%07d\n" % line for line in range(4096))

class Raw(io.RawIOBase):
    """A file whose third read fails, once."""
    position = calls = 0
    def readable(self): return True
    def seekable(self): return True
    def seek(self, offset, whence=0):
        self.position = (0, self.position, len(data))[whence] + offset
        return self.position
    def readinto(self, buffer):
        self.calls += 1
        if self.calls == 3:
            raise OSError(errno.EIO, "Input/output error")
        piece = data[self.position:self.position + min(len(buffer), 4096)]
        buffer[:len(piece)] = piece
        self.position += len(piece)
        return len(piece)

file = io.BufferedReader(Raw(), 4096)
first = file.read(8)
try:
    file.read(16384)
except OSError as error:
    print(platform.python_version(), "read(16384) at 8:", error)
position, again = file.tell(), file.read(8)
print("position after it:", position, " next read:", again, " expected at 8:", data[8:16])
sys.exit(not (first == data[:8] and position == 8192 and again == data[8192:8200]))
P
