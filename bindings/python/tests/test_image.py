"""Images, read by path."""

from __future__ import annotations

import importlib.resources
import os
import stat
import sys
import typing
from pathlib import Path

import pytest
from conftest import LARGE, SMALL, descriptors

import verimount

if sys.version_info >= (3, 11):
    from importlib.resources.abc import Traversable
else:
    from importlib.abc import Traversable


def test_an_image_is_read_by_path(image: verimount.Image, tree: Path) -> None:
    assert image.read_bytes("large") == LARGE
    assert image.read_bytes("/large") == LARGE
    assert image.read_text("docs/README.md") == "hello\n"
    assert image.read_text(Path("link")) == "hello\n"
    with image.open("large") as file:
        assert (file.size, file.name, file.digest) == (len(LARGE), "large", image.digest)
        assert file.read_at(1_000_000, 100) == LARGE[1_000_000:1_000_100]
    assert image.readlink("link") == "docs/README.md"
    assert sorted(entry.name for entry in image.iterdir()) == sorted(os.listdir(tree))
    walked = sorted(str(entry) for entry in image.walk())
    expected = ["/", *("/" + str(path.relative_to(tree)) for path in tree.rglob("*"))]
    assert walked == sorted(expected)
    assert image.exists("docs") and not image.exists("large/x") and not image.exists("nowhere")


def test_attributes_are_those_of_the_tree(image: verimount.Image, tree: Path) -> None:
    for name in ["", "docs", "large", "link"]:
        for follow in [True, False]:
            found = image.stat(name, follow_symlinks=follow)
            expected = os.stat(tree / name, follow_symlinks=follow)
            assert found.st_mode == expected.st_mode
            assert (found.st_uid, found.st_gid) == (expected.st_uid, expected.st_gid)
            assert found.st_mtime_ns == expected.st_mtime_ns
            assert found.st_mtime == expected.st_mtime
            if not stat.S_ISDIR(found.st_mode):
                assert found.st_size == expected.st_size


def test_extended_attributes(tree: Path) -> None:
    try:
        os.setxattr(tree / "large", "user.colour", b"red\0")
    except OSError as error:
        pytest.skip(f"this file system has none: {error}")
    digest = verimount.build(tree, "app.img").digest
    image = verimount.Image("app.img", digest=digest)
    assert image.getxattr("large", "user.colour") == b"red\0"
    assert image.getxattr("large", "user.shape") is None
    assert image.listxattr("large") == ["user.colour"]


def test_paths_are_traversable(image: verimount.Image) -> None:
    root = image / ""
    assert isinstance(root, Traversable)
    docs = image / "docs"
    assert docs.is_dir() and not docs.is_file()
    readme = docs / "README.md"
    assert (readme.name, str(readme)) == ("README.md", "/docs/README.md")
    assert readme.is_file() and readme.read_bytes() == SMALL and readme.read_text() == "hello\n"
    assert readme.parent == docs == image / "docs" and hash(docs) == hash(image / "docs")
    assert [entry.name for entry in docs.iterdir()] == ["README.md"]
    assert (image / "link").is_symlink() and not (image / "missing").exists()
    # Also where the locale's encoding is another one.
    assert readme.open().encoding == "utf-8"  # type: ignore[attr-defined]
    with readme.open() as text, readme.open("rb") as raw:
        assert text.read() == "hello\n" and raw.read() == SMALL
    with pytest.raises(ValueError):
        readme.open("w")
    with importlib.resources.as_file(readme) as path:
        assert path.read_bytes() == SMALL
    assert not isinstance(readme, os.PathLike)


def test_annotations_are_types() -> None:
    for function in [verimount.open, verimount.Image.__init__, verimount.verify, verimount.mount]:
        assert "location" in typing.get_type_hints(function)


def test_many_entries_are_listed(folder: Path) -> None:
    tree = folder / "many"
    tree.mkdir()
    for number in range(1000):
        (tree / f"{number:04}").touch()
    image = verimount.Image("many.img", digest=verimount.build(tree, "many.img").digest)
    names = sorted(entry.name for entry in image.iterdir())
    assert names == [f"{number:04}" for number in range(1000)]


def test_names_need_not_be_text(folder: Path) -> None:
    tree = folder / "odd"
    tree.mkdir()
    (tree / os.fsdecode(b"\xff\n")).write_bytes(SMALL)
    image = verimount.Image("odd.img", digest=verimount.build(tree, "odd.img").digest)
    (entry,) = image.iterdir()
    assert os.fsencode(entry.name) == b"\xff\n"
    assert entry.read_bytes() == SMALL


def test_what_is_not_there(image: verimount.Image, weights: str) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        image.read_bytes("missing")
    error = raised.value
    assert isinstance(error, verimount.NotFound)
    assert (error.filename, error.path) == ("app.img", "missing")
    with pytest.raises(verimount.IsADirectory):
        image.open("docs")
    with pytest.raises(NotADirectoryError) as not_a_directory:
        image.iterdir("large")
    assert isinstance(not_a_directory.value, verimount.InvalidInput)
    with pytest.raises(verimount.InvalidInput):
        image.readlink("large")
    with pytest.raises(verimount.WrongFormat):
        verimount.Image("weights", digest=weights)


def test_a_closed_image_has_no_descriptors(digest: str) -> None:
    with verimount.Image("app.img", digest=digest) as image:
        file = image.open("large")
        assert file.read_at(0, 10) == LARGE[:10]
        assert descriptors("app.img") > 0
    for use in [lambda: image.open("large"), lambda: image.exists("large"), image.walk]:
        with pytest.raises(ValueError, match="closed"):
            use()
    assert image.digest == digest
    # It was opened before.
    assert file.read() == LARGE
    file.close()
    assert descriptors("app.img") == 0
