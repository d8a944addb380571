"""Forks, pickles and signals."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import LARGE, SMALL, optional

import verimount
from verimount._opening import Opening

FORKS = 50


@contextmanager
def readers(*files: verimount.File) -> Iterator[None]:
    """Eight threads that read meanwhile."""
    ended = threading.Event()

    def read(file: verimount.File, offset: int) -> None:
        while not ended.is_set():
            assert file.read_at(offset, 300_000) == LARGE[offset : offset + 300_000]

    threads = [
        threading.Thread(target=read, args=(files[n % len(files)], n * 300_000)) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def in_child(check: object) -> int:
    """The exit status of a forked child that calls this; it is killed after a minute."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            check()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_children_open_anew_while_threads_read(weights: str, image: verimount.Image) -> None:
    file = verimount.open("weights", digest=weights)
    inside = image.open("large")
    entries = image.walk()
    next(entries)

    def check() -> None:
        for opened in [file, inside]:
            assert opened.read_at(1_000_000, 400_000) == LARGE[1_000_000:1_400_000]
            assert opened.digest in (weights, image.digest)
        assert image.read_bytes("link") == SMALL
        assert len(list(image.walk())) == 7
        # It drops what it inherited.
        file.close()

    with readers(file, inside):
        for _ in range(FORKS):
            assert in_child(check) == 0
    assert file.read(10) == LARGE[:10]


def test_forked_children_fetch_with_threads_of_their_own(weights: str, nginx: str) -> None:
    file = verimount.open(f"{nginx}/weights", digest=weights)

    def check() -> None:
        assert file.read_at(1_000_000, 400_000) == LARGE[1_000_000:1_400_000]

    with readers(file):
        for _ in range(10):
            assert in_child(check) == 0


def test_a_child_reads_on_where_another_thread_was_reading(folder: Path) -> None:
    """The thread does not exist in the child, and would keep the buffer locked for ever."""
    Path("weights").write_bytes(LARGE)
    digest = verimount.seal("weights")
    here = os.getpid()
    asked, answered = threading.Event(), threading.Event()

    class Source:
        name = "source"
        size = len(LARGE)

        def read_at(self, offset: int, length: int, /) -> bytes:
            if armed and os.getpid() == here:
                asked.set()
                assert answered.wait(60)
            return LARGE[offset : offset + length]

    armed = False
    file = verimount.open(Source(), digest=digest, sidecar="weights.verity")
    file.seek(1_000_000)
    armed = True
    reader = threading.Thread(target=file.read, args=(10,))
    reader.start()
    assert asked.wait(60)

    def check() -> None:
        file.seek(500_000)
        assert file.read(10) == LARGE[500_000:500_010]

    try:
        assert in_child(check) == 0
    finally:
        answered.set()
        reader.join()


def test_a_child_does_not_open_other_bytes(folder: Path) -> None:
    Path("weights").write_bytes(LARGE)
    verimount.seal("weights")
    file = verimount.open("weights", unpinned=True)

    def check() -> None:
        try:
            file.read(1)
        except verimount.WrongContent:
            return
        raise AssertionError("it read something else")

    Path("weights.new").write_bytes(LARGE[::-1])
    verimount.seal("weights.new")
    os.rename("weights.new", "weights")
    os.rename("weights.new.verity", "weights.verity")
    assert in_child(check) == 0
    assert file.read(10) == LARGE[:10]


def _read(file: verimount.File, image: verimount.Image, number: int) -> tuple[str, str, bytes, bytes]:
    os.chdir("/")
    return file.digest, image.digest, file.read(100), image.read_bytes("large")[number:][:100]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pickles_open_the_same_bytes_in_workers(
    weights: str, digest: str, method: str
) -> None:
    file = verimount.open("weights", unpinned=True)
    image = verimount.Image("app.img", unpinned=True)
    file.seek(50)
    workers = concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context(method))
    with workers as pool:
        results = [pool.submit(_read, file, image, number) for number in range(16)]
        for number, result in enumerate(results):
            expected = weights, digest, LARGE[50:150], LARGE[number : number + 100]
            assert result.result(120) == expected


def test_pickles_are_of_what_was_found(weights: str) -> None:
    file = verimount.open("weights", unpinned=True)
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    assert in_child(lambda: file.read_at(0, 10)) == 0
    pickled = pickle.dumps(file)
    os.chdir("..")
    assert weights.encode() in pickled
    copy = pickle.loads(pickled)
    assert copy.digest == weights and copy.read() == LARGE
    Path("weights").write_bytes(LARGE[::-1])
    verimount.seal("weights")
    with pytest.raises(verimount.WrongContent):
        pickle.loads(pickled).read()


def test_pickles_hold_numbers_of_python(weights: str) -> None:
    """The other process may have no numpy."""
    numpy = optional("numpy")
    file = verimount.open("weights", digest=weights)
    file.seek(numpy.uint16(5))
    opening = Opening("disk", hash_offset=numpy.uint32(4096))
    for pickled in [pickle.dumps(file), pickle.dumps(opening)]:
        assert b"numpy" not in pickled


def test_pickles_hold_no_secret(weights: str, nginx: str) -> None:
    Path("headers").write_text("Authorization: Bearer t0psecret\n")
    url = f"{nginx}/weights"
    file = verimount.open(url, digest=weights, header_file="headers", timeout=5)
    pickled = pickle.dumps(file)
    assert b"t0psecret" not in pickled and url.encode() in pickled
    assert pickle.loads(pickled).read(10) == LARGE[:10]
    for location in [f"{url}?signature=t0psecret", f"{url}?t0psecret"]:
        file = verimount.open(location, digest=weights, sidecar=f"{url}.verity")
        assert file.read(10) == LARGE[:10]
        with pytest.raises(pickle.PicklingError, match="secret"):
            pickle.dumps(file)
        assert file.name == url and "t0psecret" not in repr(file) + repr(file.raw.opened.opening)
        with pytest.raises(verimount.WrongContent) as raised:
            verimount.open(location, digest="sha256:" + "0" * 64, sidecar=f"{url}.verity?t0psecret")
        assert "t0psecret" not in repr(raised.value) + str(raised.value) + str(raised.value.filename)


def test_paths_in_images_are_pickled(image: verimount.Image) -> None:
    one, other = pickle.loads(pickle.dumps([image / "large", image / "link"]))
    assert one.read_bytes() == LARGE and other.read_text() == "hello\n"
    assert one.image is other.image and one == image / "large"


# A program that gets SIGINT when it is written to.
INTERRUPTIBLE = """
import mmap, os, signal, sys, threading, time
import verimount

def interrupt():
    sys.stdin.read(1)
    os.kill(os.getpid(), signal.SIGINT)

# Programs that shells start in the background have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
"""

INTERRUPTED = INTERRUPTIBLE + """
calls = []

def progress(step, done, total):
    if not calls:
        print("started", flush=True)
    calls.append(step)
    time.sleep(0.01)

try:
    {work}
except KeyboardInterrupt:
    print("interrupted")
"""

WORK = {
    "build": "verimount.build('big', 'big.img', progress=progress)",
    "seal": "verimount.seal('big/file', progress=progress)",
    "digest": "verimount.digest('big/file', progress=progress)",
    "verify": "verimount.verify('big/file', unpinned=True, progress=progress)",
}


@pytest.mark.parametrize("work", WORK)
def test_ctrl_c_ends_work(folder: Path, work: str) -> None:
    Path("big").mkdir()
    with open("big/file", "wb") as file:
        # Holes: it takes long to hash, and no space.
        file.truncate(1 << 30 if work == "verify" else 256 << 30)
    if work == "verify":
        verimount.seal("big/file")
    before = sorted(Path().rglob("*"))
    done = _interrupt(INTERRUPTED.replace("{work}", WORK[work]))
    assert done == "started\ninterrupted\n"
    assert sorted(Path().rglob("*")) == before


def _interrupt(code: str, until: Callable[[], object] = lambda: None) -> str:
    """What a program writes that gets SIGINT after its first line, and after `until` has returned."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        output = process.stdout.readline()
        until()
        process.stdin.write("x")
        process.stdin.close()
        output += process.stdout.read()
        process.wait(60)
        return output
    finally:
        process.kill()
        process.wait()


STALLED = INTERRUPTIBLE + """
print("started", flush=True)
try:
    verimount.{call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("call", ["open(URL, unpinned=True)", "digest(URL)"])
def test_ctrl_c_ends_waiting_for_a_server(call: str) -> None:
    with socket.socket() as stalled:
        stalled.bind(("127.0.0.1", 0))
        stalled.listen()
        url = f"http://127.0.0.1:{stalled.getsockname()[1]}/file"
        code = STALLED.replace("{call}", call.replace("URL", repr(url)))
        assert _interrupt(code, stalled.accept) == "started\ninterrupted\n"


READING = INTERRUPTIBLE + """
file = verimount.open("holes", digest=sys.argv[1])
buffer = mmap.mmap(-1, file.size)
buffer[-1] = 1
try:
    print("started", flush=True)
    file.readinto_at(buffer, 0)
except KeyboardInterrupt:
    print("interrupted" if buffer[-1] == 1 else "read to the end")
"""


def test_ctrl_c_ends_reading(folder: Path) -> None:
    """A read looks for signals between its pieces, and not when it has ended."""
    with open("holes", "wb") as file:
        # It takes long to hash, and no space.
        file.truncate(2 << 30)
    code = READING.replace("sys.argv[1]", repr(verimount.seal("holes")))
    assert _interrupt(code) == "started\ninterrupted\n"
