#!/usr/bin/env bash
# CPython 3.11.7, zipfile, with numpy 2.3.5: going back in a member to a numpy integer goes to the member's end instead.
# io.BytesIO, open() and gzip take operator.index() of a position, so one expects any integer to do. ZipExtFile.seek is written in
# Python and subtracts: numpy.uint32(5) - 10000 wraps to 4294957301 (NumPy 2 keeps the type of the scalar; NumPy 1 made it -9995),
# so it reads forward to the end, and the next read() is b"" with nothing but a RuntimeWarning. Such positions come out of headers
# by frombuffer("<u4").
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check numpy==2.3.5
cat >try.py <<'P'
import gzip, io, sys, warnings, zipfile
import numpy

data = bytes(range(256)) * 400
position = numpy.frombuffer(b"\x05\0\0\0", "<u4")[0]
archive, stream = io.BytesIO(), io.BytesIO(gzip.compress(data))
with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
    file.writestr("f", data)
seen = {}
for name, file in (("BytesIO", io.BytesIO(data)), ("gzip", gzip.open(stream)), ("zipfile", zipfile.ZipFile(archive).open("f"))):
    file.read(10_000)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        file.seek(position)
    seen[name] = (int(file.tell()), file.read(3))
    print(f"{name}: at 10000, seek({position!r}): at {seen[name][0]}, read(3) is {seen[name][1]}", *(warning.message for warning in warned))
right = (5, b"\5\6\7")
sys.exit(seen != {"BytesIO": right, "gzip": (right[0], right[1]), "zipfile": (len(data), b"")})
P
v/bin/python try.py
