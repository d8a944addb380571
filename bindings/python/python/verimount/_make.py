"""What makes and checks images, seals and digests."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable, Literal, SupportsIndex

from . import _verimount
from ._opening import Location, Opening, Options, StrPath, Unpack

Progress = Callable[[str, int, int], Any]
"""Called from time to time with the step, how much of it is done, and how much it is in all (0 if that is not known): in
bytes, or for ``scan`` and ``name`` in parts of the tree. If it returns ``False`` or raises, the work ends."""


@dataclass(frozen=True)
class Built:
    """An image that was built."""

    digest: str
    """Its digest."""
    notes: list[str]
    """What the image does not store of the directory or archive, and links that lead out of it."""


def build(
    source: StrPath,
    image: StrPath,
    *,
    format: Literal["erofs", "romfs"] = "erofs",
    compress: str | None = None,
    strict: bool = False,
    exclude: Iterable[str] = (),
    mtime: SupportsIndex | None = None,
    owner: tuple[SupportsIndex, SupportsIndex] | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Builds a sealed image of a directory or tar archive at ``image``, and replaces an older image there.

    The same tree always gives the same image. ``compress`` is ``lz4`` or ``zstd``, perhaps with ``,LEVEL``. With ``strict``
    it fails if the image would lose anything, which only romfs does. ``exclude`` are patterns of paths that are left out,
    ``mtime`` and ``owner`` replace those of the files. With ``replace``, a file is replaced that is not an image.

    >>> built = build("app", "app.img")
    >>> built.digest == digest
    True
    """
    arguments = {
        "format": format,
        "compress": compress,
        "strict": strict,
        "exclude": list(exclude),
        "mtime": mtime,
        "owner": owner,
        "replace": replace,
    }
    made, notes = _verimount.build(source, image, arguments, progress)
    return Built(made, notes)


def seal(
    file: StrPath,
    *,
    append: bool = False,
    replace: bool = False,
    progress: Progress | None = None,
) -> str:
    """Adds a Merkle tree to a file, in ``FILE.verity`` or appended to it; returns its digest.

    With ``replace``, a ``FILE.verity`` is replaced that is signed or not a seal.

    >>> with verimount.open("weights", digest=seal("weights")) as file:
    ...     file.read_at(4, 3)
    b'\\x07\\x07\\x07'
    """
    made, is_shadowed = _verimount.seal(file, append, replace, progress)
    if is_shadowed:
        warnings.warn(
            f"{os.fspath(file)} also ends with a seal, which takes precedence", stacklevel=2
        )
    return made


def digest(location: Location, *, progress: Progress | None = None) -> str:
    """The fs-verity digest of any content, sealed or not.

    >>> digest("weights") == seal("weights")
    True
    """
    return _verimount.digest(location, progress)


@dataclass(frozen=True)
class BadRange:
    """Bytes that do not match."""

    start: int
    """The first of them in the file or image."""
    stop: int
    """The one after the last."""
    reason: str
    """Why the first block is bad."""
    files: list[str]
    """The files of the image in it, with their paths from the root."""


@dataclass(frozen=True)
class Report:
    """What :func:`verify` found."""

    digest: str
    """What the content was compared with."""
    size: int
    """The size of the content in bytes."""
    bad_bytes: int
    """How many bytes are bad."""
    bad_ranges: int
    """How many ranges are bad."""
    bad: list[BadRange]
    """The first 10,000 of them, in order."""
    unnamed: str | None
    """Why some affected files could not be named."""
    defect: str | None
    """A defect of the image although all bytes match."""

    @property
    def is_good(self) -> bool:
        """Whether all is good."""
        return self.bad_ranges == 0 and self.defect is None


def verify(
    location: Location, *, progress: Progress | None = None, **options: Unpack[Options]
) -> Report:
    """Reads and verifies everything, and finds every bad range and the files of an image in it.

    >>> verify("app.img", digest=digest).is_good
    True
    """
    content = _verimount.Content(Opening(location, **options))
    found, sizes, bad, unnamed, defect = content.verify(progress)
    ranges = [BadRange(start, stop, reason, files) for (start, stop), reason, files in bad]
    size, bad_bytes, bad_ranges = sizes
    return Report(found, size, bad_bytes, bad_ranges, ranges, unnamed, defect)
