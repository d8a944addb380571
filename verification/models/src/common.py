"""What both checks need."""

import os
import pathlib
import subprocess
import sys
import time

VERIMOUNT = sys.argv[1]


def verimount(*arguments):
    """Runs the command; returns its exit code, and what it printed."""
    ended = subprocess.run(
        [VERIMOUNT, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert "panicked" not in ended.stderr, ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


def succeeds(*arguments):
    code, out, errors = verimount(*arguments)
    assert code == 0, (arguments, code, out, errors)
    return out, errors


def mounted(image, digest, folder):
    """A mount of an image, to be ended by `umount`."""
    folder.mkdir(exist_ok=True)
    succeeds("mount", image, folder, "--digest", digest)
    return folder


def umount(folder):
    succeeds("umount", folder)


def files(folder):
    """All regular files below a folder, also through links: their contents by their paths."""
    found = {}
    for directory, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = pathlib.Path(directory) / name
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def step(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
