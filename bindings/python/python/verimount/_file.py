"""A verified file as Python's own."""

from __future__ import annotations

import io
import os
import sys
from errno import EINVAL
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from . import _opening, _verimount
from ._opening import Opened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class File(io.RawIOBase):
    """A sealed file, or a file of an image, every byte of which is verified when it is read.

    It is read in order as any raw file, or at any place with ``read_at`` and ``readinto_at``, by several threads at once.
    The interpreter's lock is not held while they read and verify. A read of bytes that do not match raises :class:`verimount.Mismatch`; other
    reads are not affected.

    Wrap it into :class:`io.BufferedReader` for many small reads. It can be pickled, with its position: the other process
    opens the same bytes.
    """

    def __init__(self, opened: Opened, path: str | None = None) -> None:
        super().__init__()
        self._opened = opened
        self._path = path
        self._position = 0
        self._native: _verimount.File | None = None
        self._generation = -1
        self._size = self._file.size

    @property
    def _file(self) -> _verimount.File:
        native = self._native
        if native is None or self._generation != _opening._generation:
            native = self._native = self._opened.file(self._path)
            self._generation = _opening._generation
        return native

    @property
    def name(self) -> str:
        """The path in the image, or the location."""
        return self._opened.name if self._path is None else self._path

    @property
    def mode(self) -> str:
        """Always ``rb``."""
        return "rb"

    @property
    def digest(self) -> str:
        """The digest of the sealed file or image, such as ``sha256:…``, or its root hash of dm-verity."""
        return self._opened.identity

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._size

    def close(self) -> None:
        """Gives up what is open for it, so that no descriptor is left."""
        super().close()
        self._native = None
        # What is open for a file of an image is the image's.
        if self._path is None:
            self._opened.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: object, /) -> NoReturn:
        raise io.UnsupportedOperation("not writable")

    def tell(self) -> int:
        self._check()
        return self._position

    # Numbers are made Python's where they come in: sums of numpy's wrap around, and lead to another place.

    def seek(self, offset: SupportsIndex, whence: SupportsIndex = os.SEEK_SET, /) -> int:
        self._check()
        offset, whence = index(offset), index(whence)
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise io.UnsupportedOperation(f"whence is 0, 1 or 2, not {whence}")
        position = (0, self._position, self._size)[whence] + offset
        if position < 0:
            # As of all raw files: who looks for a trailer catches it where the file is shorter.
            raise OSError(EINVAL, f"the position would be {position}", self.name)
        if position > sys.maxsize:
            raise OverflowError(f"the position would be {position}, and is at most {sys.maxsize}")
        self._position = position
        return position

    def read(self, size: SupportsIndex | None = -1, /) -> bytes:
        self._check()
        size = -1 if size is None else index(size)
        read = self._file.read(self._position, sys.maxsize if size < 0 else size)
        self._position += len(read)
        return read

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        read = self.readinto_at(buffer, self._position)
        self._position += read
        return read

    def read_at(self, offset: SupportsIndex, length: SupportsIndex) -> bytes:
        """At most ``length`` bytes from ``offset`` on; fewer only where the file ends."""
        self._check()
        offset, length = index(offset), index(length)
        if offset < 0 or length < 0:
            raise ValueError("offset and length are not negative")
        return self._file.read(offset, length)

    def readinto_at(self, buffer: WriteableBuffer, offset: SupportsIndex) -> int:
        """Fills a writable buffer, such as a ``memoryview`` or an array, with the bytes from ``offset`` on; returns how many.

        Fewer than it has room for only where the file ends. What does not match is never copied there; other pieces of what
        was asked for may have been.
        """
        self._check()
        offset = index(offset)
        if offset < 0:
            raise ValueError("the offset is not negative")
        try:
            view = memoryview(buffer)
        except ValueError:
            # Python has no name for the items, such as times of numpy's.
            return io.BytesIO(self.read_at(offset, buffer.nbytes)).readinto(buffer)
        if view.readonly:
            raise TypeError("the buffer is not writable")
        return self._file.read_into(view.cast("B"), offset) if view.nbytes else 0

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def __repr__(self) -> str:
        return f"<verimount.File {self.name!r} of {self.digest}>"

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        return _unpickled, (self._opened, self._path, self._position, self._size)


def _unpickled(opened: Opened, path: str | None, position: int, size: int) -> File:
    file = File.__new__(File)
    io.RawIOBase.__init__(file)
    file._opened, file._path = opened, path
    file._position, file._size = position, size
    file._native = None
    file._generation = -1
    return file
