"""A verified file as Python's own."""

from __future__ import annotations

import io
import os
import sys
import weakref
from collections.abc import Iterator
from errno import EINVAL
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _opening, _verimount
from ._opening import Opened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


# How much is read at a time for small reads in order, in bytes: verifying it takes twenty times as long as asking for it.
BLOCK_SIZE = 64 << 10

# How much is read at another place, where perhaps only a few bytes are looked for. What is slow takes as long for a block.
_FIRST = 8 << 10


class _Raw(io.RawIOBase):
    """What a buffer is filled from."""

    def __init__(self, opened: Opened, path: str | None, block_size: int, size: int | None) -> None:
        super().__init__()
        self.opened = opened
        self.path = path
        self.block_size = block_size
        self._position = 0
        # Where the last read ended.
        self._end = -1
        self._native: _verimount.File | None = None
        self._generation = -1
        self.size = self.native.size if size is None else size

    @property
    def native(self) -> _verimount.File:
        native = self._native
        if native is None or self._generation != _opening._generation:
            native = self._native = self.opened.file(self.path)
            self._generation = _opening._generation
        return native

    @property
    def name(self) -> str:
        return self.opened.name if self.path is None else self.path

    @property
    def mode(self) -> str:
        return "rb"

    def close(self) -> None:
        super().close()
        self._native = None
        # What is open for a file of an image is the image's.
        if self.path is None:
            self.opened.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        position = (0, self._position, self.size)[whence] + offset
        if position < 0:
            # As of all files: who looks for a trailer catches it where the file is shorter.
            raise OSError(EINVAL, f"the position would be {position}", self.name)
        self._position = position
        return position

    def readall(self) -> bytes:
        read = self.native.read(self._position, sys.maxsize)
        self._position = self._end = self._position + len(read)
        return read

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        native, view = self.native, memoryview(buffer).cast("B")
        is_elsewhere = self._position != self._end and not native.is_slow
        if is_elsewhere and len(view) == self.block_size:
            view = view[: _FIRST - self._position % _FIRST]
        read = native.read_into(view, self._position)
        self._position = self._end = self._position + read
        return read


class File(io.BufferedReader):
    """A sealed file, or a file of an image, every byte of which is verified when it is read.

    It is read in order as any binary file, or at any place with ``read_at`` and ``readinto_at``, by several threads at once.
    The interpreter's lock is not held while they read and verify. A read of bytes that do not match raises :class:`verimount.Mismatch`; other
    reads are not affected.

    It can be pickled, with its position: the other process opens the same bytes.
    """

    raw: _Raw

    def __init__(
        self,
        opened: Opened,
        path: str | None = None,
        block_size: int = BLOCK_SIZE,
        size: int | None = None,
    ) -> None:
        super().__init__(_Raw(opened, path, block_size, size), block_size)
        _open_files.add(self)

    @property
    def digest(self) -> str:
        """The digest of the sealed file or image, such as ``sha256:…``, or its root hash of dm-verity."""
        return self.raw.opened.identity

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self.raw.size

    def __iter__(self) -> Iterator[bytes]:
        # Twice as fast: of a subclass, Python looks the method up for each line.
        return iter(self.readline, b"")

    # Numbers are made Python's where they come in: sums of numpy's wrap around, and lead to another place.

    def read_at(self, offset: SupportsIndex, length: SupportsIndex) -> bytes:
        """At most ``length`` bytes from ``offset`` on; fewer only where the file ends."""
        self._check()
        offset, length = index(offset), index(length)
        if offset < 0 or length < 0:
            raise ValueError("offset and length are not negative")
        return self.raw.native.read(offset, length)

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
        return self.raw.native.read_into(view.cast("B"), offset) if view.nbytes else 0

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def __repr__(self) -> str:
        return f"<verimount.File {self.name!r} of {self.digest}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        # From Python 3.12 on, that of buffered files refuses.
        return self.__reduce__()

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        raw = self.raw
        return _unpickled, (raw.opened, raw.path, raw.block_size, raw.size, self.tell())


def _unpickled(
    opened: Opened, path: str | None, block_size: int, size: int, position: int
) -> File:
    file = File(opened, path, block_size, size)
    file.seek(position)
    return file


_open_files: weakref.WeakSet[File] = weakref.WeakSet()


def _renew_buffers() -> None:
    """In a child, that of a file which another thread was reading would be locked for ever."""
    for file in list(_open_files):
        if not file.closed:
            position = file.tell()
            io.BufferedReader.__init__(file, file.raw, file.raw.block_size)
            file.seek(position)


os.register_at_fork(after_in_child=_renew_buffers)
