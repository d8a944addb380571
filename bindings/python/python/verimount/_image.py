"""Images as Python reads directories."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import IO, Any

from . import _verimount
from ._file import File
from ._opening import Location, Opened, Opening, Options, StrPath, Unpack


# Mode, inode number, number of names, owner, group, size, times in nanoseconds (of reading, of changing the content and of
# changing the file), blocks, and the numbers of a device.
Attributes = tuple[int, int, int, int, int, int, tuple[int, int, int], int, tuple[int, int]]


class Image:
    """An image of a directory tree, every byte of which is verified when it is read.

    Paths begin at its root, with or without ``/``. Symbolic links are followed inside of the image.

    >>> image = Image("app.img", digest=digest)
    >>> image.read_text("docs/README.md")
    'hello\\n'
    >>> [entry.name for entry in image.iterdir("docs")]
    ['README.md']

    ``image / "docs"`` is a path in it, which is a ``Traversable`` as those of :mod:`importlib.resources`:

    >>> (image / "docs" / "README.md").read_bytes()
    b'hello\\n'

    An image can be pickled: the other process opens the same bytes. ``close`` or the end of a ``with`` block gives up what is open
    for it.
    """

    def __init__(self, location: Location, **options: Unpack[Options]) -> None:
        """Opens the image at ``location``; see :class:`verimount.Options` for what is accepted there."""
        self._closed = False
        self._opened = Opened(Opening(location, **options))
        # Whether it is an image is known now.
        self._image

    @property
    def _image(self) -> _verimount.Image:
        return self._open.image

    @property
    def _open(self) -> Opened:
        if self._closed:
            raise ValueError("the image is closed")
        return self._opened

    def close(self) -> None:
        """Gives up what is open for it. Files that were opened in it can still be read."""
        self._closed = True
        self._opened.close()

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def digest(self) -> str:
        """Its digest, such as ``sha256:…``, or its root hash of dm-verity."""
        return self._opened.identity

    def open(self, path: StrPath) -> File:
        """Opens a regular file."""
        return File(self._open, os.fspath(path))

    def read_bytes(self, path: StrPath) -> bytes:
        """The content of a regular file."""
        file = self._open.file(os.fspath(path))
        return file.read(0, file.size)

    def read_text(
        self, path: StrPath, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """The same as text."""
        return self.read_bytes(path).decode(encoding, errors)

    def iterdir(self, path: StrPath = "") -> Iterator[ImagePath]:
        """The entries of a directory, in the order in which reading them is cheapest."""
        return (entry for entry, _ in self._scan(path))

    def _scan(self, path: StrPath) -> Iterator[tuple[ImagePath, os.stat_result]]:
        """The entries with their attributes, which are known."""
        entries = self._image.entries(os.fspath(path))
        return ((ImagePath(self, entry), _stat_result(found)) for entry, found in _all(entries))

    def walk(self, path: StrPath = "") -> Iterator[ImagePath]:
        """What is at ``path``, and everything below it: a directory before its entries. Symbolic links are not followed."""
        entries = self._image.walk(os.fspath(path))
        return (ImagePath(self, entry) for entry, _ in _all(entries))

    def stat(
        self, path: StrPath = "", *, follow_symlinks: bool = True
    ) -> os.stat_result:
        """The attributes of a file or directory."""
        return _stat_result(self._image.attributes(os.fspath(path), follow_symlinks))

    def exists(self, path: StrPath) -> bool:
        """Whether there is a file or directory at ``path``."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def readlink(self, path: StrPath) -> str:
        """The target of a symbolic link."""
        return self._image.read_link(os.fspath(path))

    def listxattr(self, path: StrPath) -> list[str]:
        """The names of a file's extended attributes. A symbolic link is not followed."""
        return self._image.xattr_names(os.fspath(path))

    def getxattr(self, path: StrPath, name: str) -> bytes | None:
        """The value of an extended attribute, if the file has it. A symbolic link is not followed."""
        return self._image.xattr(os.fspath(path), name)

    def __truediv__(self, child: StrPath) -> ImagePath:
        return ImagePath(self, child)

    def __repr__(self) -> str:
        return f"<verimount.Image {self._opened.name!r} of {self.digest}>"

    def __getstate__(self) -> Opened:
        return self._open

    def __setstate__(self, opened: Opened) -> None:
        self._closed = False
        self._opened = opened


class ImagePath:
    """A path in an image: a ``Traversable``, with what the image tells of the file that is there."""

    __slots__ = ("_path", "image")

    def __init__(self, image: Image, path: StrPath = "") -> None:
        self.image = image
        # Not reduced: `a/../b` is not `b` if `a` is a link.
        self._path = PurePosixPath("/", path)

    @property
    def name(self) -> str:
        """The last component; that of the root is empty."""
        return self._path.name

    @property
    def parent(self) -> ImagePath:
        """The directory that it is in."""
        return ImagePath(self.image, self._path.parent)

    def joinpath(self, *children: StrPath) -> ImagePath:
        """A path below it."""
        return ImagePath(self.image, self._path.joinpath(*children))

    def __truediv__(self, child: StrPath) -> ImagePath:
        return self.joinpath(child)

    def iterdir(self) -> Iterator[ImagePath]:
        """The entries of the directory."""
        return self.image.iterdir(self._path)

    def walk(self) -> Iterator[ImagePath]:
        """It, and everything below it."""
        return self.image.walk(self._path)

    def open(
        self, mode: str = "r", encoding: str | None = None, *args: Any, **kwargs: Any
    ) -> IO[Any]:
        """Opens the file as text, by default UTF-8, or for ``rb`` as bytes; further arguments are those of :class:`io.TextIOWrapper`."""
        if mode not in ("r", "rt", "rb"):
            raise ValueError(f"the mode is r or rb, not {mode}")
        reader = self.image.open(self._path)
        if mode == "rb":
            return reader
        return io.TextIOWrapper(reader, encoding or "utf-8", *args, **kwargs)

    def read_bytes(self) -> bytes:
        """The content of the file."""
        return self.image.read_bytes(self._path)

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """The same as text."""
        return self.image.read_text(self._path, encoding or "utf-8", errors or "strict")

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Its attributes."""
        return self.image.stat(self._path, follow_symlinks=follow_symlinks)

    def exists(self) -> bool:
        """Whether there is something."""
        return self.image.exists(self._path)

    def is_dir(self) -> bool:
        """Whether it is a directory, or a link to one."""
        return self._is(S_ISDIR)

    def is_file(self) -> bool:
        """Whether it is a regular file, or a link to one."""
        return self._is(S_ISREG)

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self._is(S_ISLNK, follow_symlinks=False)

    def _is(self, kind: Callable[[int], bool], *, follow_symlinks: bool = True) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def readlink(self) -> str:
        """The target of the symbolic link."""
        return self.image.readlink(self._path)

    def getxattr(self, name: str) -> bytes | None:
        """The value of an extended attribute, if the file has it."""
        return self.image.getxattr(self._path, name)

    def __str__(self) -> str:
        return str(self._path)

    def __repr__(self) -> str:
        return f"<{self._path} in {self.image!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ImagePath):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, PurePosixPath]:
        return self.image._opened.identities, self._path


def _all(entries: _verimount.Entries) -> Iterator[tuple[str, Attributes]]:
    while batch := entries.more():
        yield from batch


def _stat_result(attributes: Attributes) -> os.stat_result:
    mode, inode, links, uid, gid, size, times, blocks, device = attributes
    whole = (time // 10**9 for time in times)
    seconds = (time / 10**9 for time in times)
    of_content = (4096, blocks, os.makedev(*device))
    return os.stat_result(
        (mode, inode, 0, links, uid, gid, size, *whole, *seconds, *times, *of_content)
    )
