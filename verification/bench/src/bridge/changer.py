"""A user who changes files in a folder in one way: the arguments. Says the median of the seconds."""

import os
import sys
import time

USER = 61_001
TIMES = 1_000

folder, change = sys.argv[1:]
os.setgroups([])
os.setresgid(USER, USER, USER)
os.setresuid(USER, USER, USER)
old, new = f"{folder}/old", f"{folder}/new"


def create():
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def make_old():
    os.close(os.open(old, os.O_CREAT | os.O_WRONLY))


def nothing():
    pass


# What is timed, and what is done before and after it.
before, timed, after = {
    "statvfs": (nothing, lambda: os.statvfs(folder), nothing),
    "chmod": (nothing, lambda: os.chmod(old, 0o640), nothing),
    "create": (nothing, create, lambda: os.remove(new)),
    "unlink": (create, lambda: os.remove(new), nothing),
    "rename": (make_old, lambda: os.rename(old, new), nothing),
    "mkdir": (nothing, lambda: os.mkdir(new), lambda: os.rmdir(new)),
    "rmdir": (lambda: os.mkdir(new), lambda: os.rmdir(new), nothing),
}[change]
make_old()
taken = []
for _ in range(TIMES):
    before()
    began = time.perf_counter()
    timed()
    taken.append(time.perf_counter() - began)
    after()
print(sorted(taken)[TIMES // 2])
