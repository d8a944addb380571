#!/usr/bin/env bash
# fsspec 2026.9.0: simplecache:: and filecache:: above an archive hand out the file of another archive.
# Both are documented to hash URLs, so one expects zip://x.csv::a.zip and zip://x.csv::b.zip to be two entries. What is hashed is
# the path in the file system next to the cache alone, "x.csv": neither the archive nor its place nor any option counts. So with one
# cache_storage, b.zip's x.csv is a.zip's, in this process and in the next. (check_files=True of filecache compares size, time and
# CRC.)
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check fsspec==2026.9.0
cat >try.py <<'P'
import os, subprocess, sys, zipfile
import fsspec

here = os.getcwd()
def read(cache, archive, **options):
    options = {cache: {"cache_storage": os.path.join(here, cache + str(options)), **options}}
    with fsspec.open(f"{cache}::zip://x.csv::file://{here}/{archive}.zip", "rt", **options) as file:
        return file.read()

if len(sys.argv) > 1:
    sys.exit(print(read(*sys.argv[1:]), end=""))
for archive in "ab":
    with zipfile.ZipFile(archive + ".zip", "w") as file:
        file.writestr("x.csv", f"from {archive}")
seen = {}
for cache in ("simplecache", "filecache"):
    other = subprocess.run([sys.executable, __file__, cache, "b"], capture_output=True, text=True, check=True).stdout if read(cache, "a") else ""
    seen[cache] = [read(cache, "a"), read(cache, "b"), other]
seen["filecache, check_files"] = [read("filecache", archive, check_files=True) for archive in "ab"]
for name, files in seen.items():
    print(name, files)
sys.exit(seen != {"simplecache": ["from a"] * 3, "filecache": ["from a"] * 3, "filecache, check_files": ["from a", "from b"]})
P
v/bin/python try.py
