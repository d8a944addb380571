#!/usr/bin/env bash
# zarr 2.18.7, FSStore with fsspec 2026.9.0: a chunk that cannot be read is full of the fill value, and no error.
# A chunk that does not exist means the fill value, so one expects FileNotFoundError to be taken for that, and EIO or a time-out to be raised,
# as for the array's metadata. FSStore reads chunks with on_error="omit": any exception makes the chunk missing. zarr 3 raises it.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check zarr==2.18.7 fsspec==2026.9.0
cat >try.py <<'P'
import errno, sys
import numpy, zarr
from fsspec.implementations.memory import MemoryFileSystem

class Fails(MemoryFileSystem):
    protocol = "memory"
    bad = None
    def cat_file(self, path, start=None, end=None, **options):
        if self.bad and path.endswith(self.bad):
            raise OSError(errno.EIO, "Input/output error", path)
        return super().cat_file(path, start, end, **options)

fs = Fails()
store = zarr.storage.FSStore("/a", fs=fs)
array = zarr.open_array(store, mode="w", shape=6, chunks=2, dtype="i4", fill_value=0)
array[:] = [1, 2, 3, 4, 5, 6]
fs.bad = "/a/1"
read = zarr.open_array(store, mode="r")[:].tolist()
print("written [1, 2, 3, 4, 5, 6], with EIO for the chunk in the middle read as", read)
sys.exit(read != [1, 2, 0, 0, 5, 6])
P
v/bin/python try.py 2>/dev/null
