#!/usr/bin/env bash
# fsspec 2026.9.0, every file system that lists by ls(): a recursive copy leaves out directories that cannot be listed, and succeeds.
# cp -r, rsync and tar copy the rest, too, but say so and exit with 1. get(recursive=True) raises for a file that cannot be read, so one
# expects it to raise for a directory; but it lists by walk(), whose default is on_error="omit", and so do find(), glob("**"), du() and
# expand_path(): a permission, a time-out or EIO makes a smaller tree and no error. Seen with the local file system as an ordinary user.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check fsspec==2026.9.0
umask 022; mkdir -p s/open s/shut c d e; echo 1 >s/open/f; echo 22 >s/shut/g; chmod 0 s/shut; chmod 777 "$t" d e
cat >try.py <<'P'
import os, subprocess, sys
import fsspec

fs = fsspec.filesystem("file")
here = os.getcwd()
fs.get(here + "/s/open", here + "/c/", recursive=True), fs.du(here + "/c"), fs.glob(here + "/c/**")  # imports what is needed
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
copied = subprocess.run(["cp", "-r", "s", "e"], stderr=subprocess.PIPE, text=True)
print("cp -r: exit", copied.returncode, copied.stderr.strip().splitlines()[0])
fs.get(here + "/s", here + "/d/", recursive=True)
got = sorted(os.path.relpath(path, here + "/d") for path in fs.find(here + "/d"))
size, named = fs.du(here + "/s"), [os.path.basename(path) for path in fs.glob(here + "/s/**") if os.path.isfile(path)]
print("get: no error, files:", got, " du:", size, " glob:", named)
try:
    fs.ls(here + "/s/shut")
except PermissionError as error:
    print("ls:", error.strerror)
    sys.exit(not (copied.returncode == 1 and got == ["s/open/f"] and size == 2 and named == ["f"]))
sys.exit(1)
P
v/bin/python try.py; chmod 700 s/shut
