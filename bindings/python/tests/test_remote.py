"""Content on web servers."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from conftest import LARGE, SMALL
from test_errors import flip
from test_processes import in_child

import verimount


def test_files_and_images_of_servers(nginx: str, weights: str, digest: str) -> None:
    file = verimount.open(f"{nginx}/weights", digest=weights)
    assert file.read() == LARGE
    buffer = bytearray(100)
    assert file.readinto_at(buffer, 2_000_000) == 100 and buffer == LARGE[2_000_000:2_000_100]
    image = verimount.Image(f"{nginx}/app.img", digest=digest)
    assert image.read_bytes("link") == SMALL and len(list(image.walk())) == 7
    assert verimount.verify(f"{nginx}/app.img", digest=digest).is_good
    assert verimount.digest(f"{nginx}/weights") == weights
    with pytest.raises(verimount.NotFound):
        verimount.open(f"{nginx}/missing", digest=weights)
    with pytest.raises(verimount.NotTrusted):
        verimount.open(f"{nginx}/weights")


def test_threads_read_from_servers(nginx: str, weights: str) -> None:
    file = verimount.open(f"{nginx}/weights", digest=weights)
    read: list[bytes] = []
    threads = [threading.Thread(target=lambda: read.append(file.read_at(0, 1 << 22))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [LARGE] * 8


def test_what_is_kept_is_not_fetched_again(nginx: str, weights: str) -> None:
    options = {"digest": weights, "cache": "kept"}
    assert verimount.open(f"{nginx}/weights", **options).read() == LARGE  # type: ignore[arg-type]
    # What is there now is something else.
    os.rename("weights", "moved")
    assert verimount.open(f"{nginx}/weights", **options).read() == LARGE  # type: ignore[arg-type]
    with pytest.raises(verimount.NotFound):
        verimount.open(f"{nginx}/weights", digest=weights)


def test_a_wrong_byte_from_a_server_is_never_read(nginx: str, weights: str) -> None:
    file = verimount.open(f"{nginx}/weights", digest=weights)
    flip("weights", 1_000_000)
    with pytest.raises(verimount.Mismatch) as raised:
        file.read()
    assert raised.value.offset == 1_000_000 // 4096 * 4096
    flip("weights", 1_000_000)
    assert verimount.open(f"{nginx}/weights", digest=weights).read() == LARGE


def test_what_was_opened_is_not_missing(nginx: str, weights: str, tree: Path) -> None:
    """What takes a missing file for an empty one, as zarr does, must not take this for one."""
    # Names of several megabytes, so that not all of them are fetched when the image is opened.
    (tree / "many").mkdir()
    names = [f"{number:05}{'x' * 240}" for number in range(20_000)]
    for name in names:
        (tree / "many" / name).touch()
    digest = verimount.build(tree, "app.img").digest
    file = verimount.open(f"{nginx}/weights", digest=weights)
    image = verimount.Image(f"{nginx}/app.img", digest=digest)
    for name in ["weights", "app.img"]:
        os.rename(name, f"moved-{name}")
    for read in [
        file.read,
        lambda: image.read_bytes("large"),
        lambda: [image.exists(f"many/{name}") for name in names[::1000]],
    ]:
        with pytest.raises(verimount.Io) as raised:
            read()
        assert not isinstance(raised.value, FileNotFoundError)
        assert raised.value.errno == errno.EIO


def test_children_open_their_own_connections(nginx: str, weights: str) -> None:
    file = verimount.open(f"{nginx}/weights", digest=weights)
    assert file.read_at(0, 10) == LARGE[:10]

    def check() -> None:
        assert file.read_at(1_000_000, 2_000_000) == LARGE[1_000_000:3_000_000]

    for _ in range(5):
        assert in_child(check) == 0
    check()


def test_no_server_answers(folder: Path) -> None:
    with pytest.raises(verimount.Network):
        verimount.open("http://127.0.0.1:1/weights", unpinned=True, timeout=1)
    with pytest.raises(ValueError, match="timeout"):
        verimount.open("http://127.0.0.1:1/weights", unpinned=True, timeout=-1)
    with pytest.raises(verimount.NotFound, match="missing") as raised:
        verimount.open("http://127.0.0.1:1/weights", unpinned=True, ca="missing")
    assert raised.value.filename == "missing"
    Path("file").touch()
    with pytest.raises(verimount.Error, match="file"):
        verimount.open("http://127.0.0.1:1/weights", unpinned=True, cache="file/kept")
    with open("long", "wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(ValueError, match="more than"):
        verimount.open("http://127.0.0.1:1/weights", unpinned=True, header_file="long")
    Path("bad").write_text("no header")
    with pytest.raises(ValueError, match="header_file"):
        verimount.open("http://127.0.0.1:1/weights", unpinned=True, header_file="bad")
