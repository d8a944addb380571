"""Images as a file system of fsspec: ``verimount://PATH::LOCATION``.

What is accepted at the location is said in the storage options, and nowhere else:

>>> import fsspec
>>> options = {"verimount": {"digest": digest}}
>>> with fsspec.open("verimount://docs/README.md::app.img", "rb", **options) as file:
...     file.read()
b'hello\\n'
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any, NoReturn

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.utils import tokenize

from . import _verimount
from ._errors import InvalidInput
from ._file import BLOCK_SIZE, File
from ._image import Image, ImagePath
from ._opening import Location, Options

# What this package fetches itself, by the names of fsspec's protocols: what stands before the rest of a location.
_OWN = {
    "file": "",
    "local": "",
    "http": "",
    "https": "",
    "s3": "s3://",
    "s3a": "s3://",
    "gs": "gs://",
    "gcs": "gs://",
    "az": "az://",
}

# Arguments of all of fsspec's file systems.
_OF_FSSPEC = {
    "asynchronous",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}

# What is not there, as opposed to what cannot be read.
_ABSENT = (FileNotFoundError, NotADirectoryError)

_TYPES = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


class VerimountFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of an image, every byte of which is verified when it is read.

    ``fo`` is the image's location, and ``options`` are those of :class:`verimount.Image` and of all file systems. Without a pin there,
    :class:`verimount.NotTrusted` is raised. Files on this machine, web servers and object stores are read by this package,
    others through the file system of fsspec that is named by ``target_protocol``.
    """

    protocol = "verimount"
    cachable = True

    def __init__(
        self,
        fo: Location = "",
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._of_fsspec = {name: options.pop(name) for name in _OF_FSSPEC & options.keys()}
        if unknown := options.keys() - Options.__annotations__.keys():
            known = ", ".join(["fo", *Options.__annotations__])
            raise TypeError(f"verimount has no option {', '.join(sorted(unknown))}, but {known}")
        super().__init__(**self._of_fsspec)
        location = _location(fo, target_protocol, target_options or {})
        self.image = Image(location, **options)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        inside = str(path).removeprefix("verimount://")
        # Names below it begin with a slash if it does: who compares them expects that.
        return inside[: inside.startswith("/")] + "/".join(filter(None, inside.split("/")))

    def __reduce__(self) -> tuple[Any, ...]:
        opening = self.image._opened.opening
        opening.refuse_secrets()
        options = opening.arguments()
        location = options.pop("location")
        size = self.image._opened.size
        return _unpickled, (type(self), location, self._of_fsspec | options, size)

    @property
    def fsid(self) -> str:
        """The digests of the image and its devices."""
        return f"verimount-{self.image._opened.identities}"

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The entries of a directory, or a file itself."""
        path = self._strip_protocol(path)
        info = self.info(path)
        found = [info]
        if info["type"] == "directory":
            above = f"{path.rstrip('/')}/" if path else ""
            scanned = self.image._scan(path)
            found = [self._entry(above + entry.name, entry, status) for entry, status in scanned]
            found.sort(key=lambda info: str(info["name"]))
        return found if detail else [entry["name"] for entry in found]

    def _entry(self, name: str, path: ImagePath, status: os.stat_result) -> dict[str, Any]:
        info = self._info(name, path, status)
        # What goes through the entries of directories does not follow links to them, which may lead to itself.
        if info["islink"] and info["type"] == "directory":
            info["type"] = "link"
        return info

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Name, size, type and attributes of a file or directory."""
        name = self._strip_protocol(path)
        found = self.image / name
        return self._info(name, found, found.stat(follow_symlinks=False))

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **kwargs: Any,
    ) -> Iterator[Any]:
        """All that is below a directory. By default, one that is absent has nothing in it; one that cannot be read is an error."""
        if on_error == "omit":
            on_error = _raise_unless_absent
        # It calls this one for each directory below.
        yield from super().walk(path, maxdepth, topdown, on_error, **kwargs)

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is something; if that cannot be read, it is an error."""
        return self._type(path) is not None

    def isdir(self, path: str) -> bool:
        """Whether it is a directory, or a link to one."""
        return self._type(path) == "directory"

    def isfile(self, path: str) -> bool:
        """Whether it is a regular file, or a link to one."""
        return self._type(path) == "file"

    def _type(self, path: str) -> str | None:
        try:
            return str(self.info(path)["type"])
        except _ABSENT:
            return None

    def _info(self, name: str, path: ImagePath, status: os.stat_result) -> dict[str, Any]:
        is_link = stat.S_ISLNK(status.st_mode)
        if is_link:
            try:
                status = path.stat()
            except (FileNotFoundError, InvalidInput):
                # A link to nothing or to itself, as the local file system of fsspec shows it.
                pass
        info = {
            "name": name,
            "size": status.st_size,
            "type": _TYPES.get(stat.S_IFMT(status.st_mode), "other"),
            "created": status.st_ctime,
            "islink": is_link,
            "mode": status.st_mode,
            "uid": status.st_uid,
            "gid": status.st_gid,
            "mtime": status.st_mtime,
            "ino": status.st_ino,
            "nlink": status.st_nlink,
            # What caches above know the content by: without it, some take the time, which reproducible images have in common.
            "ETag": f"{self.image._opened.identities}:{path}",
        }
        if is_link:
            info["destination"] = path.readlink()
        return info

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any
    ) -> OpenFile:
        if mode != "rb":
            _read_only()
        return OpenFile(self, self._strip_protocol(path), block_size or BLOCK_SIZE)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """The bytes of a file, or those from ``start`` on to before ``end``; negative ones count from its end."""
        file = self.image._open.file(self._strip_protocol(path))
        first, last, _ = slice(start, end).indices(file.size)
        return file.read(first, max(0, last - first))

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Parts of files, read side by side; what went wrong with one is returned in its place, or raised."""
        if max_gap is not None:
            raise NotImplementedError("what is between ranges is never read with them")
        if not isinstance(paths, list):
            raise TypeError("paths is a list")
        bounds = [given if isinstance(given, list) else [given] * len(paths) for given in (starts, ends)]
        if any(len(given) != len(paths) for given in bounds):
            raise ValueError("starts and ends are as many as paths")
        ranges = list(zip(map(self._strip_protocol, paths), *bounds))
        read = self.image._image.read_ranges(ranges)
        if on_error != "return":
            _raise_first(read)
        return read

    def cat(
        self, path: str | list[str], recursive: bool = False, on_error: str = "raise", **kwargs: Any
    ) -> Any:
        """The content of a file or, by their paths, of several, read side by side."""
        paths = self.expand_path(path, recursive=recursive, **kwargs)
        if len(paths) == 1 and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        read = self.cat_ranges(paths, kwargs.get("start"), kwargs.get("end"))
        if on_error == "raise":
            _raise_first(read)
        found = zip(paths, read)
        return {path: one for path, one in found if on_error == "return" or isinstance(one, bytes)}

    def created(self, path: str) -> datetime:
        """When content or attributes of a file were changed last."""
        return datetime.fromtimestamp(self.info(path)["created"], timezone.utc)

    def modified(self, path: str) -> datetime:
        """When the content of a file was changed last."""
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def checksum(self, path: str) -> int:
        """A number that stands for the content: as that of :meth:`ukey`."""
        return int(tokenize(self.ukey(path)), 16)

    def ukey(self, path: str) -> str:
        """What is another one if the content is: the digests of the image and its devices, and the path."""
        return str(self.info(path)["ETag"])

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        _read_only()

    # All that changes something.
    mkdir = makedirs = rmdir = _rm = rm_file = rm = cp_file = mv = touch = _refuse
    pipe_file = put_file = _refuse


class OpenFile(File):
    """A file that is open in such a file system, with what users of fsspec look for."""

    def __init__(self, fs: VerimountFileSystem, path: str, block_size: int) -> None:
        super().__init__(fs.image._open, path, block_size)
        self.fs = fs
        self.path = path
        self.blocksize = block_size

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_at, (self.fs, self.path, self.blocksize, self.tell())


def _opened_at(fs: VerimountFileSystem, path: str, block_size: int, position: int) -> OpenFile:
    file = OpenFile(fs, path, block_size)
    file.seek(position)
    return file


def _raise_first(read: list[Any]) -> None:
    for one in read:
        if isinstance(one, Exception):
            raise one


def _unpickled(
    cls: type[VerimountFileSystem], location: Location, options: dict[str, Any], size: int
) -> VerimountFileSystem:
    fs = cls(location, **options)
    fs.image._opened.require_size(size)
    return fs


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, _ABSENT):
        raise error


def _read_only() -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def _location(fo: Location, protocol: str | None, options: dict[str, Any]) -> Location:
    if fo == "":
        raise ValueError("the image is missing: verimount://PATH::LOCATION, or fo=LOCATION")
    if not isinstance(fo, str):
        return fo
    if protocol is None:
        before, separator, path = fo.partition("://")
        if not separator or _verimount.is_remote(fo):
            return fo
        protocol, fo = before, path
    if protocol in _OWN:
        if options:
            # Left out, they could be those without which it is read from elsewhere, or as somebody else.
            raise TypeError(f"options of {protocol} that verimount does not have: {', '.join(sorted(options))}")
        return _OWN[protocol] + fo
    fs, path = url_to_fs(f"{protocol}://{fo}", **options)
    return FsspecSource(fs, path)


class FsspecSource:
    """A file that fsspec reads."""

    def __init__(self, fs: AbstractFileSystem, path: str) -> None:
        self.fs = fs
        self.name = path
        self.size: int = fs.size(path)

    def read_at(self, offset: int, length: int, /) -> bytes:
        """Some of its bytes."""
        return bytes(self.fs.cat_file(self.name, start=offset, end=offset + length))
