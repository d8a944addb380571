"""Where content is and which is accepted, and content that was opened."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from errno import EKEYREJECTED
from numbers import Real
from operator import index
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypedDict, Union

from . import _verimount
from ._errors import WrongContent


class Source(Protocol):
    """Content that Python code reads: the last kind of location."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    def read_at(self, offset: int, length: int, /) -> bytes: ...


if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    # For what evaluates annotations.
    Unpack = Union

StrPath = Union[str, os.PathLike[str]]
Location = Union[StrPath, Source]


class Options(TypedDict, total=False):
    """Which content is accepted, where its seal is, and how it is read: the keyword arguments of all that opens content.

    All of ``digest``, ``key`` and ``root_hash`` that are given must hold. Without any, only a location that names its
    content by a digest can be opened, unless it is said to be ``unpinned``.
    """

    digest: str | None
    """The digest of fs-verity, such as ``sha256:…``."""
    key: StrPath | None
    """The minisign public key that the seal is signed with, or its file."""
    root_hash: str | None
    """The root hash of dm-verity, in hexadecimal digits."""
    unpinned: bool
    """Accepts any content that matches its own seal: detects damage, but not forgery."""
    cache: StrPath | None
    """The directory in which what is fetched from servers is kept; by default nothing is."""
    sidecar: Location | None
    """The file with the Merkle tree, if it is neither at the end of the data nor in ``FILE.verity``."""
    hash_offset: SupportsIndex | None
    """The offset of a dm-verity superblock in bytes."""
    devices: Sequence[tuple[Location, str | None]]
    """The further devices of an image, each with its digest, if that is pinned."""
    mirrors: Sequence[Location]
    """Further places of the same content: what does not match, or cannot be read, is taken from there."""
    timeout: float | None
    """How long a read waits for a server, in seconds; by default a minute."""
    ca: StrPath | None
    """The authorities whose certificates are accepted of servers, in a PEM file; by default those of the system."""
    header_file: StrPath | None
    """The file with headers to send with each request, such as tokens, one ``Name: value`` on each line."""


# Counts forks, so that what was opened before one is opened anew in the child.
_generation = 0


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


_TEXT = ("a text", str)
_PATH = ("a path", (str, os.PathLike))

# What arguments are, in words and types.
_KINDS: dict[str, tuple[str, Any]] = {
    "digest": _TEXT,
    "key": _PATH,
    "root_hash": _TEXT,
    "cache": _PATH,
    "timeout": ("a number", Real),
    "ca": _PATH,
    "header_file": _PATH,
}


@dataclass(frozen=True)
class Opening:
    """What the library needs to open something."""

    # URLs may have secrets in them, which a representation must not show.
    location: Location = field(repr=False)
    digest: str | None = None
    key: StrPath | None = None
    root_hash: str | None = None
    unpinned: bool = False
    sidecar: Location | None = field(default=None, repr=False)
    hash_offset: SupportsIndex | None = None
    devices: Sequence[tuple[Location, str | None]] = field(default=(), repr=False)
    mirrors: Sequence[Location] = field(default=(), repr=False)
    cache: StrPath | None = None
    timeout: float | None = None
    ca: StrPath | None = None
    header_file: StrPath | None = None

    def __post_init__(self) -> None:
        for place in [self.location, *filter(None, [self.sidecar]), *self.mirrors]:
            if not isinstance(place, (str, os.PathLike)) and not hasattr(place, "read_at"):
                wanted = "a path, a URL, or an object with name, size and read_at"
                raise TypeError(f"a location is {wanted}, not {type(place).__name__}")
        for name, (wanted, kind) in _KINDS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} is {wanted}, not {type(value).__name__}")
        if self.hash_offset is not None:
            # In a pickle, a number of numpy's would need numpy in the other process.
            object.__setattr__(self, "hash_offset", index(self.hash_offset))

    def pinned(self, content: _verimount.Content) -> Opening:
        """The same, for nothing but what was found."""
        devices = zip(self.devices, content.devices)
        kind, text = content.identity or (None, None)
        return dataclasses.replace(
            self,
            digest=text if kind == "digest" else None,
            root_hash=text if kind == "root_hash" else None,
            key=None,
            unpinned=False,
            devices=[(place, found and found[1]) for (place, _), found in devices],
        )

    def absolute(self) -> Opening:
        """The same for another process, or for when the working directory is another one."""
        return dataclasses.replace(
            self,
            location=_absolute(self.location),
            sidecar=None if self.sidecar is None else _absolute(self.sidecar),
            devices=[(_absolute(place), digest) for place, digest in self.devices],
            mirrors=[_absolute(place) for place in self.mirrors],
            cache=self.cache and os.path.abspath(self.cache),
            ca=self.ca and os.path.abspath(self.ca),
            header_file=self.header_file and os.path.abspath(self.header_file),
        )

    def arguments(self) -> dict[str, Any]:
        """What was said of it, by name."""
        fields = dataclasses.fields(self)
        values = {one.name: (getattr(self, one.name), one.default) for one in fields}
        return {name: value for name, (value, default) in values.items() if value != default}

    def refuse_secrets(self) -> None:
        """Raises if it must not become part of a pickle."""
        devices = (place for place, _ in self.devices)
        for place in [self.location, self.sidecar, *devices, *self.mirrors]:
            if isinstance(place, str) and _verimount.is_remote(place):
                authority = place.partition("://")[2].partition("/")[0]
                if "@" in authority or "?" in place:
                    raise PicklingError(
                        "the URL has a query or a password, which may be secret: "
                        "open it in the other process"
                    )


def _absolute(location: Location) -> Location:
    if isinstance(location, os.PathLike):
        return Path(os.path.abspath(location))
    if isinstance(location, str) and not _verimount.is_remote(location):
        return os.path.abspath(location)
    return location


def _shown(location: Location) -> str:
    """Its name for people and messages: of a URL without the query, which may be secret."""
    if isinstance(location, str):
        return location.partition("?")[0] if _verimount.is_remote(location) else location
    return os.fspath(location) if isinstance(location, os.PathLike) else location.name


class Opened:
    """Content that was opened: pinned to what was found, and opened anew in a process that has only got this object."""

    def __init__(self, opening: Opening) -> None:
        content = _verimount.Content(opening)
        # The working directory may change.
        self.opening = opening.pinned(content).absolute()
        self.name = _shown(opening.location)
        self.size = content.file().size
        self._keep(content)

    def _keep(self, content: _verimount.Content | None) -> None:
        self._content = content
        self._image: _verimount.Image | None = None
        self._generation = _generation

    def close(self) -> None:
        """Gives up what is open. If something of it is needed, it is opened anew."""
        self._keep(None)

    # Another thread may replace what is open, so that it is looked up once.

    @property
    def content(self) -> _verimount.Content:
        content = self._content
        if content is None or self._generation != _generation:
            content = _verimount.Content(self.opening)
            self.require_size(content.file().size)
            self._keep(content)
        return content

    @property
    def image(self) -> _verimount.Image:
        """The image that it is."""
        content = self.content
        image = self._image
        if image is None:
            image = self._image = content.image()
        return image

    def require_size(self, size: int) -> None:
        """Raises if it has another size than the same had elsewhere, which a root hash does not cover."""
        if size != self.size:
            raise WrongContent(EKEYREJECTED, f"{self.name} has another size now", self.name)

    def file(self, path: str | None) -> _verimount.File:
        """A file of the image, or all of the content."""
        return self.content.file() if path is None else self.image.open(path)

    @property
    def identity(self) -> str:
        """The digest or root hash."""
        found = self.opening.digest or self.opening.root_hash
        assert found is not None
        return found

    @property
    def identities(self) -> str:
        """What decides all that is read: the identity, and those of an image's further devices, which it does not cover."""
        return self.identity + "".join(f",{digest}" for _, digest in self.opening.devices)

    def __getstate__(self) -> dict[str, Any]:
        self.opening.refuse_secrets()
        return {"opening": self.opening, "name": self.name, "size": self.size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        # Opened when something of it is needed.
        self.close()
