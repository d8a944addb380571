"""Verified storage from user space: files and images of which every byte is checked when it is read, wherever they are.

>>> with verimount.open("weights", digest=verimount.seal("weights")) as file:
...     file.read(4)
b'\\x07\\x07\\x07\\x07'

What is accepted is said by its digest, by the key that it is signed with, or by its root hash of dm-verity; nothing opens
without, unless that is asked for. Bytes that do not match are never handed out: :class:`Mismatch` is raised instead.
"""

from __future__ import annotations


from ._errors import (
    AlreadyExists,
    Busy,
    Cancelled,
    Corrupt,
    Damaged,
    DeviceNotTrusted,
    Error,
    InvalidInput,
    Io,
    IsADirectory,
    Mismatch,
    NeedsRootHash,
    Network,
    NoHashArea,
    NoSize,
    NotADirectory,
    NotFound,
    NotOneImage,
    NotSealed,
    NotTrusted,
    PermissionDenied,
    TooLarge,
    Unsupported,
    WouldLose,
    WouldReplace,
    WouldWiden,
    WrongContent,
    WrongFormat,
    WrongModel,
)
from ._file import File
from ._image import Image, ImagePath
from ._make import BadRange, Built, Progress, Report, build, digest, seal, verify
from ._mount import command, mount
from ._opening import Location, Opened, Opening, Options, Source, Unpack

__all__ = [
    "AlreadyExists",
    "BadRange",
    "Built",
    "Busy",
    "Cancelled",
    "Corrupt",
    "Damaged",
    "DeviceNotTrusted",
    "Error",
    "File",
    "Image",
    "ImagePath",
    "InvalidInput",
    "Io",
    "IsADirectory",
    "Location",
    "Mismatch",
    "NeedsRootHash",
    "Network",
    "NoHashArea",
    "NoSize",
    "NotADirectory",
    "NotFound",
    "NotOneImage",
    "NotSealed",
    "NotTrusted",
    "Options",
    "PermissionDenied",
    "Progress",
    "Report",
    "Source",
    "TooLarge",
    "Unsupported",
    "WouldLose",
    "WouldReplace",
    "WouldWiden",
    "WrongContent",
    "WrongFormat",
    "WrongModel",
    "build",
    "command",
    "digest",
    "mount",
    "open",
    "seal",
    "verify",
]


def open(location: Location, **options: Unpack[Options]) -> File:
    """Opens a sealed file, a path or a URL, for reading; see :class:`Options` for what is accepted.

    Of an image, this gives its bytes. Opening reads the seal only; each byte is verified when it is read.

    >>> file = verimount.open("weights", digest=digest)
    >>> file.seek(8000)
    8000
    >>> buffer = bytearray(2000)
    >>> file.readinto(buffer)
    2000
    >>> file.size
    10000
    """
    return File(Opened(Opening(location, **options)))


# In messages and pickles, they are where programs know them to be.
for _name in __all__:
    if isinstance(_class := globals()[_name], type):
        _class.__module__ = __name__
