"""One user of a shared bridge who takes what they can get.

Arguments: what is taken, the source, the mount, and how many bytes are copied or allocated at a time.
Says when it is taken, and ends with its input.
"""

import fcntl
import os
import resource
import signal
import sys
import threading

NOBODY = 65534
FILES = 20_000
WAITING = 64


def files(source, mount, _):
    path = f"{source}/many"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    for _ in range(3):
        said, says = os.pipe()
        if os.fork() == 0:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            for _ in range(FILES // 3 + 1):
                try:
                    os.open(f"{mount}/many", os.O_RDWR)
                except OSError:
                    pass
            os.close(says)
            sys.stdin.read()
            os._exit(0)
        os.close(says)
        os.read(said, 1)
    yield
    for _ in range(3):
        os.wait()


def leases(source, mount, _):
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    leased, opens = [], []
    for number in range(WAITING):
        leased.append(os.open(f"{source}/leased{number}", os.O_CREAT | os.O_RDWR))
        fcntl.fcntl(leased[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
        opens.append(wait_for(f"{mount}/leased{number}", os.O_RDWR))
    yield
    # An open that waits here keeps even a process that ends from giving its leases back.
    for file in leased:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    for thread in opens:
        thread.join()


def pipes(source, mount, _):
    for number in range(WAITING):
        os.mkfifo(f"{source}/pipe{number}")
        wait_for(f"{mount}/pipe{number}", os.O_RDONLY)
    yield


def copies(_, folder, size):
    with open(f"{folder}/from", "wb") as file:
        file.write(os.urandom(size))
    source = os.open(f"{folder}/from", os.O_RDONLY)

    def copy(file):
        at = 0
        while at < size:
            at += os.copy_file_range(source, file, size - at, at, at)
        os.ftruncate(file, 0)

    repeat(300, folder, copy)
    yield


def syncs(_, folder, size):
    def sync(file):
        os.pwrite(file, b"x" * 4096, 0)
        os.fsync(file)

    repeat(300, folder, sync)
    yield


def allocations(_, folder, size):
    def allocate(file):
        os.posix_fallocate(file, 0, size)
        os.ftruncate(file, 0)

    repeat(64, folder, allocate)
    yield


def repeat(threads, folder, work):
    """Each of the threads has a file of its own."""

    def always(file):
        while True:
            try:
                work(file)
            except OSError:
                # The space of truncated files is free only a moment later.
                pass

    flags = os.O_CREAT | os.O_RDWR
    files = [os.open(f"{folder}/{number}", flags) for number in range(threads)]
    for file in files:
        threading.Thread(target=always, args=(file,), daemon=True).start()


def wait_for(path, flags):
    thread = threading.Thread(target=os.open, args=(path, flags), daemon=True)
    thread.start()
    return thread


all_kinds = [files, leases, pipes, copies, syncs, allocations]
take = {kind.__name__: kind for kind in all_kinds}[sys.argv[1]]
os.setgroups([])
os.setresgid(NOBODY, NOBODY, NOBODY)
os.setresuid(NOBODY, NOBODY, NOBODY)
source, mount, size = sys.argv[2:]
taken = take(source, mount, int(size))
next(taken)
print("taken", flush=True)
sys.stdin.read()
next(taken, None)
os._exit(0)
