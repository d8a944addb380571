"""fsspec's own suites for what reads. Their fixtures write files first: a double stages these, and seals them when something
is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import optional

import verimount

optional("fsspec")

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests import abstract

from verimount.fs import VerimountFileSystem


class Double(AbstractFileSystem):
    """Reads what was written as an image."""

    protocol = "verimount"
    root_marker = "/"
    cachable = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.staged = LocalFileSystem()
        self.folder = folder
        (folder / "tree").mkdir()
        self.sealed: VerimountFileSystem | None = None

    @property
    def image(self) -> VerimountFileSystem:
        if self.sealed is None:
            image = self.folder / "image"
            built = verimount.build(self.folder / "tree", image)
            self.sealed = VerimountFileSystem(str(image), digest=built.digest, skip_instance_cache=True)
        return self.sealed

    def _staged(self, path: str) -> str:
        self.sealed = None
        return f"{self.folder}/tree{self._strip_protocol(path)}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return VerimountFileSystem._strip_protocol(path)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self.staged.mkdir(self._staged(path), create_parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.staged.makedirs(self._staged(path), exist_ok=exist_ok)

    def touch(self, path: str, **kwargs: Any) -> None:
        self.pipe_file(path, b"")

    def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        staged = self._staged(path)
        self.staged.makedirs(self.staged._parent(staged), exist_ok=True)
        self.staged.pipe_file(staged, value)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for removed in [path] if isinstance(path, str) else path:
            self.staged.rm(self._staged(removed), recursive=recursive)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """From the image, as everything that is read."""
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
        else:
            self.pipe_file(path2, self.image.cat_file(path1))

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode == "rb":
            return self.image._open(path, mode)
        return self.staged.open(self._staged(path), mode)

    def info(self, path: str, **kwargs: Any) -> Any:
        return self.image.info(path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        return self.image.ls(path, detail)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        return self.image.cat_file(path, start, end)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, tmp_path: Path) -> Double:
        folder = tmp_path / "double"
        folder.mkdir()
        return Double(folder)

    @pytest.fixture
    def fs_path(self, fs: Double) -> str:
        return ""

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_sanitize_path(self) -> Any:
        return lambda path: path


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass
