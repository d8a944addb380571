"""What is wrong is an exception that says where, and never wrong data."""

from __future__ import annotations

import errno
import pickle
import random
import re
from pathlib import Path

import pytest
from conftest import LARGE

import verimount
from verimount import _errors

PLACES = 50


def flip(path: str, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def test_a_flipped_byte_of_a_sealed_file(weights: str) -> None:
    random_places = random.Random(2)
    for _ in range(PLACES):
        offset = random_places.randrange(len(LARGE))
        file = verimount.open("weights", digest=weights)
        flip("weights", offset)
        block = offset // 4096 * 4096
        for read in [
            lambda: file.read_at(offset, 1),
            file.read,
            lambda: file.readinto_at(bytearray(len(LARGE)), 0),
        ]:
            with pytest.raises(verimount.Mismatch) as raised:
                read()
            error = raised.value
            assert error.errno == errno.EIO
            assert error.path == error.filename == "weights"
            assert error.place == "data" and error.offset == block
            assert error.covers == (block, min(block + 4096, len(LARGE)))
            assert re.fullmatch("sha256:[0-9a-f]{64}", error.expected)
            assert re.fullmatch("sha256:[0-9a-f]{64}", error.found)
            assert error.expected != error.found
            assert str(block) in str(error) and "weights" in str(error)
        # Other parts are not affected.
        assert file.read_at(0, block) == LARGE[:block]
        flip("weights", offset)
        assert file.read_at(0, len(LARGE)) == LARGE


def test_a_flipped_byte_of_an_image(digest: str) -> None:
    random_places = random.Random(3)
    size = Path("app.img").stat().st_size
    found = 0
    for _ in range(PLACES):
        offset = random_places.randrange(size)
        flip("app.img", offset)
        try:
            image = verimount.Image("app.img", digest=digest)
            assert image.read_bytes("large") == LARGE
        except verimount.Mismatch as error:
            found += 1
            assert error.errno == errno.EIO and error.filename == "app.img"
            assert error.path in ("large", "app.img")
            if error.place == "data":
                assert error.offset == offset // 4096 * 4096
        except verimount.Error as error:
            # The seal itself.
            assert error.filename == "app.img"
        flip("app.img", offset)
        assert verimount.Image("app.img", digest=digest).read_bytes("large") == LARGE
    # Most of the image is that file.
    assert found > PLACES // 2


def test_a_buffer_has_nothing_that_does_not_match(weights: str) -> None:
    file = verimount.open("weights", digest=weights)
    flip("weights", 1_000_000)
    buffer = bytearray(len(LARGE))
    with pytest.raises(verimount.Mismatch):
        file.readinto_at(buffer, 0)
    wrong = [
        at for at in range(0, len(LARGE), 4096)
        if buffer[at : at + 4096] not in (LARGE[at : at + 4096], bytes(len(LARGE[at : at + 4096])))
    ]
    assert not wrong


def test_verify_names_all_that_is_bad(digest: str) -> None:
    at = Path("app.img").read_bytes().index(LARGE[100_000:100_100])
    flip("app.img", at)
    report = verimount.verify("app.img", digest=digest)
    assert not report.is_good and report.digest == digest
    (bad,) = report.bad
    assert bad.files == ["large"] and bad.start <= at < bad.stop
    assert (report.bad_bytes, report.bad_ranges) == (4096, 1)
    flip("app.img", at)
    assert verimount.verify("app.img", digest=digest).is_good


def test_there_is_a_class_for_each_kind() -> None:
    source = Path(__file__).parents[3] / "crates/content/src/error_kind.rs"
    body = re.search(r"pub enum ErrorKind \{(.*?)\n\}", source.read_text(), re.DOTALL)
    assert body
    kinds = set(re.findall(r"^    ([A-Z]\w+),$", body[1], re.MULTILINE))
    assert kinds == set(_errors._CLASSES)
    assert all(getattr(verimount, kind).__name__ == kind for kind in kinds)


def test_errors_are_pickled(weights: str) -> None:
    file = verimount.open("weights", digest=weights)
    flip("weights", 0)
    with pytest.raises(verimount.Mismatch) as raised:
        file.read()
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is verimount.Mismatch
    assert (str(copy), copy.errno, copy.filename) == (
        str(raised.value),
        errno.EIO,
        "weights",
    )
    assert (copy.offset, copy.expected) == (raised.value.offset, raised.value.expected)
