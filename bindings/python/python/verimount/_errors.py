"""Exceptions: a class for each kind of error of the library."""

from __future__ import annotations

from errno import EISDIR, ENOTDIR


class Error(OSError):
    """Why something failed. Its text has the reason with all its causes.

    ``errno`` is the system's error that comes closest, and ``filename`` the location that it is about. Exceptions can be
    pickled.
    """

    path: str | None = None
    """The path in the image, if it is about a file in one; else as ``filename``."""

    def __str__(self) -> str:
        return self.strerror or ""


class NotFound(Error, FileNotFoundError):
    """There is no such file or directory: on this machine, on the server, or in the image."""


class PermissionDenied(Error, PermissionError):
    """The system or the server does not allow it."""


class AlreadyExists(Error, FileExistsError):
    """There is something already where something new is to be made."""


class Busy(Error):
    """Another process has it."""


class NotTrusted(Error):
    """Nothing says which content is accepted: give a digest, a root hash or a key."""


class DeviceNotTrusted(Error):
    """The image is pinned, but nothing says which content of its further device is accepted: give the digest of that."""


class NeedsRootHash(Error):
    """The seal is one of dm-verity, for which a root hash is needed."""


class WrongContent(Error):
    """The content is not the one that is accepted: its digest, root hash, signature or number of blocks is another."""


class WrongModel(Error):
    """A model does not have the files that are signed, or the signature is of another key; or a blob of Hugging Face is not what
    it is named."""


class NotSealed(Error):
    """The content has no seal to verify it with."""


class NoHashArea(Error):
    """A root hash is given, and there is no hash area where one is looked for."""


class Corrupt(Error):
    """Bytes do not match their digests, or the data contradicts its format or itself."""


class Mismatch(Corrupt):
    """A block does not match its digest. ``errno`` is ``EIO``."""

    place: str
    """``data``, or the level of the Merkle tree that the block is in."""
    offset: int
    """The block's offset in bytes: in the sealed file or image, or in its stored tree."""
    covers: tuple[int, int]
    """The bytes of the sealed file or image that the block holds or covers: the first, and the one after the last."""
    expected: str
    """The digest that it must have."""
    found: str
    """The digest that it has."""


class Damaged(Error):
    """Not all bytes of a file that was to be copied match its seal."""


class WrongFormat(Error):
    """The data is of another format than is needed here: not an image, not a seal."""


class NotOneImage(Error):
    """An archive has several container images in it, or not all of one."""


class Unsupported(Error):
    """The data or the request may be valid, but exceeds what is supported."""


class WouldReplace(Error):
    """A file would be replaced that may be valuable, and that was not allowed."""


class WouldWiden(Error):
    """Everybody could read what only some may read now, and that was not allowed."""


class WouldLose(Error):
    """An image would not keep what it must keep."""


class TooLarge(Error):
    """More would be written than is allowed."""


class NoSize(Error):
    """A file is to be made, and nothing says how large."""


class InvalidInput(Error):
    """The request contradicts itself, or what is there."""


class NotADirectory(InvalidInput, NotADirectoryError):
    """A path in an image leads through something that is not a directory, or a directory is needed."""


class IsADirectory(InvalidInput, IsADirectoryError):
    """It is a directory, and a file is needed."""


class Network(Error):
    """A server cannot be reached, does not answer, or answers nonsense."""


class Cancelled(Error):
    """A callback has ended it."""


class Io(Error):
    """The system failed it for another reason, such as a full disk."""


# Of the kinds of errors, by their names in the library.
_CLASSES: dict[str, type[Error]] = {kind.__name__: kind for kind in Error.__subclasses__()}

# Those of a kind that Python has classes of its own for. Of another kind, such as a failed read, the same numbers are
# the storage's, and say nothing of what is in the image.
_BY_ERRNO: dict[tuple[str, int], type[Error]] = {
    ("InvalidInput", ENOTDIR): NotADirectory,
    ("InvalidInput", EISDIR): IsADirectory,
}

# What to do about those of a kind, in terms of this package.
_ADVICE = {
    "NotTrusted": "give digest, key or root_hash, or unpinned=True to detect damage but not forgery",
    "DeviceNotTrusted": "give its digest in devices",
    "NeedsRootHash": "give root_hash",
}


def from_native(
    kind: str,
    errno: int,
    text: str,
    location: str | None,
    path: str | None,
    mismatch: tuple[str, int, tuple[int, int], str, str] | None,
) -> Error:
    """The exception that the extension module raises."""
    made: Error
    if kind in _ADVICE:
        text = f"{text}: {_ADVICE[kind]}"
    if mismatch is None:
        # Of a kind that this module does not know, what all have in common.
        made = _BY_ERRNO.get((kind, errno), _CLASSES.get(kind, Error))(errno, text, location)
    else:
        made = found = Mismatch(errno, text, location)
        found.place, found.offset, found.covers, found.expected, found.found = mismatch
    made.path = location if path is None else path
    return made
