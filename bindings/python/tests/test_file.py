"""Sealed files as Python's own."""

from __future__ import annotations

import errno
import io
import mmap
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from operator import index, methodcaller
from pathlib import Path

import pytest
from conftest import LARGE, Number, descriptors, optional

import verimount


def test_a_file_is_read_as_any_binary_file(weights: str) -> None:
    with verimount.open("weights", digest=weights) as file:
        assert isinstance(file, io.BufferedReader)
        assert (file.size, file.digest, file.name, file.mode) == (
            len(LARGE),
            weights,
            "weights",
            "rb",
        )
        assert file.readable() and file.seekable() and not file.writable()
        assert file.read(10) == LARGE[:10]
        assert file.tell() == 10
        buffer = bytearray(20)
        assert file.readinto(buffer) == 20
        assert buffer == LARGE[10:30]
        assert file.seek(-5, os.SEEK_END) == len(LARGE) - 5
        assert file.readinto(buffer) == 5
        assert file.read() == b""
        assert file.seek(-3, os.SEEK_CUR) == len(LARGE) - 3
        assert file.read() == LARGE[-3:]
        assert file.seek(len(LARGE) + 7) == len(LARGE) + 7
        assert file.read(1) == b""
        file.seek(0)
        assert file.read() == LARGE
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    for read in [file.read, file.tell, lambda: file.seek(0), lambda: file.read_at(0, 1)]:
        with pytest.raises(ValueError):
            read()


def test_numbers_are_taken_as_by_binary_files(weights: str) -> None:
    numpy = optional("numpy")
    numbers = [numpy.uint16(65_000), numpy.uint8(250), numpy.int8(-8), numpy.int64(70_000)]
    numbers += [numpy.float64(5), None, True, 5, -1, 5.0, "5", Number(70_000)]
    beyond = [2**63, numpy.uint64(2**63 + 5)]
    origins = [None, True, -1, 9, 1.0, "1", Number(2), numpy.uint8(2), numpy.int64(-1)]
    calls = [
        *(methodcaller("seek", number, origin) for number in numbers + beyond for origin in range(3)),
        *(methodcaller("seek", -7, origin) for origin in origins),
        *(methodcaller("read", number) for number in numbers),
    ]
    with open("weights", "rb") as plain, verimount.open("weights", digest=weights) as file:
        for call in calls:
            assert _called(file, call) == _called(plain, call), call


def _called(file: io.BufferedReader, call: Callable[[io.BufferedReader], object]) -> tuple[object, ...]:
    """What a call returns or raises, and what is read after it, at both sides of where 16 bits end."""
    file.seek(60_000)
    try:
        result = call(file)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        kinds = (TypeError, OSError, ValueError, OverflowError)
        result = next(kind for kind in kinds if isinstance(error, kind))
    return result, file.tell(), file.read(600), file.tell(), file.read(10)


def test_numbers_of_any_place(weights: str) -> None:
    numpy = optional("numpy")
    file = verimount.open("weights", digest=weights)
    offsets = [True, Number(70_000), numpy.uint16(65_000), numpy.uint64(2**63 + 5)]
    lengths = [True, Number(600), numpy.uint8(250), numpy.uint16(65_000), numpy.uint64(2**63 + 5)]
    for offset in offsets:
        rest = LARGE[index(offset) :]
        for length in lengths:
            assert file.read_at(offset, length) == rest[: index(length)]
        buffer = bytearray(600)
        read = file.readinto_at(buffer, offset)
        assert buffer[:read] == rest[:600]
    for wrong in [None, 5.0, "5", numpy.float64(5)]:
        for call in [
            lambda: file.read_at(wrong, 1),
            lambda: file.read_at(1, wrong),
            lambda: file.readinto_at(bytearray(1), wrong),
        ]:
            with pytest.raises(TypeError):
                call()


def test_what_is_shorter_than_a_trailer_has_none(folder: Path) -> None:
    """Who looks for one catches the OSError of a position before the beginning, which raw files raise."""
    Path("short").write_bytes(b"tiny")
    with verimount.open("short", digest=verimount.seal("short")) as file:
        with pytest.raises(OSError) as raised:
            file.seek(-22, os.SEEK_END)
        assert (raised.value.errno, raised.value.filename) == (errno.EINVAL, "short")
        assert not zipfile.is_zipfile(file)


def test_what_is_closed_has_no_descriptors(weights: str) -> None:
    files = []
    # More than a process may have by default.
    for _ in range(1100):
        files.append(verimount.open("weights", digest=weights))
        assert files[-1].read(1) == LARGE[:1] and descriptors("weights") > 0
        files[-1].close()
        assert descriptors("weights") == 0
    assert files[0].size == len(LARGE) and files[0].digest == weights


def test_any_place_is_read_into_any_writable_buffer(weights: str) -> None:
    file = verimount.open(Path("weights"), digest=weights)
    for offset in [0, 1, 4095, 4096, 1 << 20, len(LARGE) - 1, len(LARGE), len(LARGE) + 1]:
        for length in [0, 1, 4096, 70_000, len(LARGE)]:
            expected = LARGE[offset : offset + length]
            assert file.read_at(offset, length) == expected
            buffer = bytearray(length)
            assert file.readinto_at(buffer, offset) == len(expected)
            assert buffer[: len(expected)] == expected
            assert not any(buffer[len(expected) :])
    words = memoryview(bytearray(80)).cast("Q")
    assert file.readinto_at(words, 3) == 80
    assert words.tobytes() == LARGE[3:83]
    assert file.read_at(0, 1 << 62) == LARGE
    assert file.tell() == 0
    with pytest.raises(TypeError):
        file.readinto(b"read-only")
    with pytest.raises(TypeError):
        file.readinto_at(memoryview(bytearray(80))[::2], 0)
    for offset, length in [(-1, 1), (1, -1)]:
        with pytest.raises(ValueError):
            file.read_at(offset, length)


def test_numpy_arrays_are_filled(weights: str) -> None:
    numpy = optional("numpy")
    file = verimount.open("weights", digest=weights)
    array = numpy.zeros((100, 250), dtype="<f4")
    assert file.readinto_at(array, 100) == array.nbytes
    assert array.tobytes() == LARGE[100 : 100 + array.nbytes]
    times = numpy.zeros(3, dtype="M8[s]")
    assert file.readinto_at(times, 8) == 24 and times.tobytes() == LARGE[8:32]
    assert file.readinto(numpy.zeros((0, 3))) == 0
    Path("array.npy").write_bytes(_npy(numpy, array))
    digest = verimount.seal("array.npy")
    with verimount.open("array.npy", digest=digest) as file:
        loaded = numpy.load(file)
    assert (loaded.view("u4") == array.view("u4")).all()


def _npy(numpy: object, array: object) -> bytes:
    stored = io.BytesIO()
    numpy.save(stored, array)  # type: ignore[attr-defined]
    return stored.getvalue()


def test_pyarrow_reads_it(weights: str) -> None:
    pyarrow = optional("pyarrow")
    file = pyarrow.PythonFile(verimount.open("weights", digest=weights), mode="r")
    file.seek(5)
    assert file.read(10) == LARGE[5:15]


def test_readers_of_python_read_it(folder: Path) -> None:
    with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one", LARGE)
    with tarfile.open("a.tar.gz", "w:gz") as archive:
        Path("one").write_bytes(LARGE)
        archive.add("one")
    with verimount.open("a.zip", digest=verimount.seal("a.zip")) as file:
        assert zipfile.ZipFile(file).read("one") == LARGE
    with verimount.open("a.tar.gz", digest=verimount.seal("a.tar.gz")) as file:
        member = tarfile.open(fileobj=file).extractfile("one")
        assert member is not None and member.read() == LARGE
    Path("lines").write_text("".join(f"line {number}\n" for number in range(10_000)))
    with verimount.open("lines", digest=verimount.seal("lines")) as file:
        lines = io.TextIOWrapper(file).readlines()
    assert lines[9_999] == "line 9999\n" and len(lines) == 10_000


def test_lines_and_small_reads_are_few_reads(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Counted:
        def __init__(self, native: object) -> None:
            self.native = native
            self.size = native.size  # type: ignore[attr-defined]
            self.is_slow = False

        def read_into(self, view: memoryview, offset: int) -> int:
            asked.append(len(view))
            return self.native.read_into(view, offset)  # type: ignore[attr-defined, no-any-return]

    native = verimount._opening.Opened.file
    monkeypatch.setattr(
        verimount._opening.Opened, "file", lambda opened, path: Counted(native(opened, path))
    )
    with verimount.open("weights", digest=weights) as file:
        assert b"".join(file) == LARGE
        # At another place, perhaps only a few bytes are looked for.
        assert max(asked) == 65_536 and len(asked) <= 4 + len(LARGE) // 65_536
        asked.clear()
        file.seek(700_001)
        assert b"".join(file.read(8) for _ in range(500)) == LARGE[700_001:704_001]
        assert len(asked) == 1 and asked[0] <= 8192
        asked.clear()
        file.seek(0)
        assert file.read(1_000_000) == LARGE[:1_000_000]
        assert len(asked) <= 2 and sum(asked) < 1_070_000


def test_threads_read_at_once(weights: str) -> None:
    file = verimount.open("weights", digest=weights)
    wrong: list[int] = []

    def read(start: int) -> None:
        for offset in range(start, len(LARGE), 8 * 4099):
            if file.read_at(offset, 9000) != LARGE[offset : offset + 9000]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(n * 4099,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_threads_run_while_a_local_file_is_read(folder: Path) -> None:
    """The thread that reads would be asked for the lock after a thousand seconds only: it has to give it up itself."""
    with open("holes", "wb") as sparse:
        # It takes long to hash, and no space.
        sparse.truncate(1 << 30)
    file = verimount.open("holes", digest=verimount.seal("holes"))
    started, ended = threading.Event(), threading.Event()

    def read() -> None:
        started.set()
        file.readinto_at(mmap.mmap(-1, file.size), 0)
        ended.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=read)
        thread.start()
        assert started.wait(60)
        assert not ended.is_set()
        thread.join(60)
        assert ended.is_set()
    finally:
        sys.setswitchinterval(before)


def test_the_lock_is_given_up_for_sources_in_python(folder: Path) -> None:
    """A fifo-like source would wait for ever if the thread that is to feed it could not run."""

    class Source:
        name = "source"
        size = len(LARGE)

        def read_at(self, offset: int, length: int, /) -> bytes:
            if armed:
                asked.set()
                assert answered.wait(30)
            return LARGE[offset : offset + length]

    asked, answered = threading.Event(), threading.Event()
    armed = False
    Path("weights").write_bytes(LARGE)
    digest = verimount.seal("weights")
    file = verimount.open(Source(), digest=digest, sidecar="weights.verity")
    armed = True
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(file.read_at(0, 100)))
    thread.start()
    assert asked.wait(30)
    answered.set()
    thread.join(60)
    assert read == [LARGE[:100]]


def test_what_is_damaged_comes_from_a_mirror(weights: str) -> None:
    right = Path("weights").read_bytes()
    for name in ["weights", "weights.verity"]:
        Path("copy" + name.removeprefix("weights")).write_bytes(Path(name).read_bytes())
    with open("weights", "r+b") as file:
        file.write(bytes([right[0] ^ 1]))
    with pytest.raises(verimount.Corrupt):
        verimount.open("weights", digest=weights).read()
    with verimount.open("weights", digest=weights, mirrors=["copy"]) as file:
        assert file.read() == right
    with verimount.open("missing", digest=weights, mirrors=[Path("copy")]) as file:
        assert file.read() == right


def test_the_command_and_the_package_agree(weights: str) -> None:
    def output(*arguments: str) -> str:
        done = subprocess.run([verimount.command(), *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert output("--version").startswith("verimount ")
    assert output("digest", "weights").split() == [weights, "weights"]
    assert verimount.digest("weights") == weights


def test_what_is_accepted(weights: str) -> None:
    verimount.open("weights", unpinned=True).close()
    other = "sha256:" + "0" * 64
    with pytest.raises(verimount.NotTrusted) as raised:
        verimount.open("weights")
    assert raised.value.filename == "weights"
    with pytest.raises(verimount.WrongContent, match="weights"):
        verimount.open("weights", digest=other)
    with pytest.raises(verimount.InvalidInput):
        verimount.open("weights", digest=weights, unpinned=True)
    with pytest.raises(ValueError, match="digest"):
        verimount.open("weights", digest="sha256:0")
    with pytest.raises(TypeError, match="a location is a path, a URL, .* not BytesIO"):
        verimount.open(io.BytesIO(b""), digest=weights)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="digest is a text, not bytes"):
        verimount.open("weights", digest=b"0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="digset"):
        verimount.open("weights", digset=weights)  # type: ignore[call-arg]
    with pytest.raises(FileNotFoundError):
        verimount.open("missing", unpinned=True)
    os.remove("weights.verity")
    with pytest.raises(verimount.NotSealed):
        verimount.open("weights", digest=weights)


def test_a_key_is_accepted_as_text_and_as_a_file(weights: str) -> None:
    command = verimount.command()
    subprocess.run(
        [command, "keygen", "--no-password", "public", "secret"], check=True, capture_output=True
    )
    subprocess.run(
        [command, "sign", "weights", "--key", "secret"], check=True, capture_output=True
    )
    for key in ["public", Path("public"), Path("public").read_text()]:
        file = verimount.open("weights", key=key)
        assert file.digest == weights
    with pytest.raises(FileNotFoundError):
        verimount.open("weights", key="missing")


def test_dm_verity_is_opened_by_its_root_hash(folder: Path) -> None:
    Path("disk").write_bytes(LARGE[: 64 * 4096])
    done = subprocess.run(
        [verimount.command(), "seal", "--format", "dm-verity", "disk"],
        capture_output=True,
        text=True,
        check=True,
    )
    root = done.stdout.split()[0]
    file = verimount.open("disk", root_hash=root)
    assert file.digest == root
    assert file.read() == LARGE[: 64 * 4096]
    with pytest.raises(verimount.NeedsRootHash):
        verimount.open("disk", digest="sha256:" + "0" * 64)
