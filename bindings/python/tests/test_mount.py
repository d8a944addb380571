"""Mounts, which the packaged command serves."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LARGE, optional, run_python

import verimount
from test_errors import flip
from test_processes import in_child


@pytest.fixture(autouse=True)
def fuse() -> None:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened")


def test_an_image_is_mounted(digest: str) -> None:
    with verimount.mount("app.img", digest=digest) as mounted:
        assert (mounted / "large").read_bytes() == LARGE
        assert (mounted / "link").read_text() == "hello\n"
        assert os.path.ismount(mounted)
    assert not mounted.exists()


def test_a_mount_is_not_left_behind(digest: str) -> None:
    script = f"""
import verimount
block = verimount.mount("app.img", digest={digest!r})
print(block.__enter__())
"""
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, check=True
    )
    assert "ResourceWarning" in ended.stderr and not os.path.exists(ended.stdout.strip())


def test_a_file_is_mounted_at_a_directory(weights: str) -> None:
    Path("mnt").mkdir()
    with verimount.mount("weights", "mnt", digest=weights) as mounted:
        assert mounted == Path("mnt").absolute()
        assert (mounted / "weights").read_bytes() == LARGE
    assert os.listdir("mnt") == []


def test_what_cannot_be_mounted(digest: str) -> None:
    with pytest.raises(verimount.NotTrusted):
        with verimount.mount("app.img"):
            pass
    with pytest.raises(verimount.WrongContent):
        with verimount.mount("app.img", digest="sha256:" + "0" * 64):
            pass
    Path("full").mkdir()
    Path("full/file").touch()
    with pytest.raises(verimount.Error, match="full"):
        with verimount.mount("app.img", "full", digest=digest):
            pass
    with pytest.raises(ZeroDivisionError):
        with verimount.mount("app.img", digest=digest) as mounted:
            1 / 0
    assert not mounted.exists()


def test_a_mount_of_somebody_else_stays(digest: str, weights: str) -> None:
    Path("mnt").mkdir()
    with verimount.mount("app.img", "mnt", digest=digest) as mounted:
        with pytest.raises(verimount.Error, match="mnt"):
            with verimount.mount("weights", "mnt", digest=weights):
                pass
        assert (mounted / "large").read_bytes() == LARGE
    assert os.listdir("mnt") == []


def test_a_child_that_leaves_the_block_leaves_the_mount(digest: str) -> None:
    block = verimount.mount("app.img", digest=digest)
    with block as mounted:
        assert in_child(lambda: block.__exit__(None, None, None)) == 0
        assert (mounted / "large").read_bytes() == LARGE
    assert not mounted.exists()


def test_a_mount_that_nobody_serves_any_more_is_removed(digest: str) -> None:
    with pytest.raises(ZeroDivisionError):
        with verimount.mount("app.img", digest=digest) as mounted:
            for process in served_at(mounted):
                os.kill(process, signal.SIGKILL)
            while answers(mounted):
                pass
            1 / 0
    assert not os.path.lexists(mounted)


def served_at(point: Path) -> list[int]:
    """The processes of the command that have the mount point among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            # It has ended.
            continue
        if os.fsencode(point) in arguments:
            found.append(int(process.name))
    assert found
    return found


def answers(point: Path) -> bool:
    try:
        os.listdir(point)
    except OSError as error:
        assert error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        return error.errno != errno.ENOTCONN
    return True


def test_a_bad_byte_is_an_error_of_the_system(digest: str) -> None:
    at = Path("app.img").read_bytes().index(LARGE[2_000_000:2_000_100])
    flip("app.img", at)
    with verimount.mount("app.img", digest=digest) as mounted:
        with pytest.raises(OSError) as raised:
            (mounted / "large").read_bytes()
        assert raised.value.errno == errno.EIO


def test_files_are_mapped(digest: str) -> None:
    """As llama.cpp maps its models."""
    with verimount.mount("app.img", digest=digest) as mounted:
        with open(mounted / "large", "rb") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                assert mapped[:] == LARGE


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_safetensors_are_loaded_from_a_mount(folder: Path, backend: str) -> None:
    numpy = optional("numpy")
    safetensors = optional("safetensors")
    stored = optional("safetensors.numpy")
    Path("model").mkdir()
    tensors = {f"layer.{n}": numpy.full((256, 512), n, dtype="float32") for n in range(4)}
    for shard in range(3):
        stored.save_file(tensors, f"model/model-{shard}.safetensors")
    digest = verimount.build("model", "model.img").digest
    with verimount.mount("model.img", digest=digest) as mounted:
        for shard in range(3):
            name = str(mounted / f"model-{shard}.safetensors")
            with safetensors.safe_open(name, framework="numpy", backend=backend) as file:
                for name, tensor in tensors.items():
                    assert (file.get_tensor(name) == tensor).all()


LOADS = """
import sys
from safetensors import SafetensorError, safe_open

with safe_open(sys.argv[1], framework="numpy", backend=sys.argv[2]) as file:
    try:
        file.get_tensor("w")
    except SafetensorError as error:
        print(error)
"""


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_bad_byte_of_a_model_ends_or_raises(folder: Path, backend: str) -> None:
    """As the manual explains SIGBUS."""
    numpy = optional("numpy")
    stored = optional("safetensors.numpy")
    Path("model").mkdir()
    stored.save_file({"w": numpy.arange(1 << 20)}, "model/model.safetensors")
    digest = verimount.build("model", "model.img").digest
    flip("model.img", Path("model.img").stat().st_size // 2)
    with verimount.mount("model.img", digest=digest) as mounted:
        done = run_python(LOADS, str(mounted / "model.safetensors"), backend)
    if backend == "mmap":
        assert done.returncode == -signal.SIGBUS
    else:
        assert done.returncode == 0 and "Input/output error" in done.stdout, done.stderr
