"""Mounts, which the packaged command serves: the kernel would wait for this process while it holds the interpreter's lock."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO, ENOTCONN
from importlib.metadata import distribution
from pathlib import Path

from ._errors import Error
from ._opening import Location, Opened, Opening, Options, StrPath, Unpack


def command() -> str:
    """The path of the ``verimount`` command in this package."""
    for file in distribution("verimount").files or ():
        if file.name == "verimount" and file.parent.name == "bin":
            return str(Path(str(file.locate())).resolve())
    raise FileNotFoundError("this package has no verimount command; `cargo xtask python wheel` makes one that has it")


@contextmanager
def mount(
    location: Location,
    directory: StrPath | None = None,
    *,
    as_file: bool = False,
    **options: Unpack[Options],
) -> Iterator[Path]:
    """Mounts an image, or with ``as_file`` a sealed file as the only one in a directory, while the block runs.

    The mount point is an empty directory, by default a temporary one. All programs of this user read verified bytes there.
    A read of bytes that do not match fails with ``EIO``; in memory that is mapped, it ends the program by ``SIGBUS``.

    >>> with mount("app.img", digest=digest) as mounted:
    ...     (mounted / "docs" / "README.md").read_text()
    'hello\\n'
    """
    # Here, so that what is wrong is an exception of its own. What was opened is not kept.
    opening = Opened(Opening(location, **options)).opening
    arguments = _arguments(opening)
    if as_file:
        arguments.append("--as-file")
    made = tempfile.mkdtemp(prefix="verimount-") if directory is None else None
    point = os.path.abspath(made or os.fspath(directory or ""))
    process, before = os.getpid(), _device(point)

    def end() -> None:
        # A forked child leaves the block as well, but the mount is its parent's.
        if os.getpid() == process:
            # Also if it was interrupted in between, but not what was mounted there before.
            if _device(point) != before:
                _run("umount", "--lazy", "--", point)
            if made is not None:
                os.rmdir(made)

    def end_late() -> None:
        if os.getpid() == process:
            warnings.warn(f"the mount on {point} was not left before the end", ResourceWarning, stacklevel=1)
        end()

    atexit.register(end_late)
    try:
        _run("mount", "--quiet", *arguments, "--", _text(opening.location), point)
        yield Path(point)
    finally:
        atexit.unregister(end_late)
        end()


def _device(point: str) -> int | None:
    """The device that is at a mount point; none if the one who served it has ended."""
    try:
        return os.lstat(point).st_dev
    except OSError as error:
        if error.errno != ENOTCONN:
            raise
        return None


def _run(*arguments: str) -> None:
    done = subprocess.run([command(), *arguments], stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        text = os.fsdecode(done.stderr).strip()
        raise Error(EIO, text.removeprefix("error: "))


def _arguments(opening: Opening) -> list[str]:
    """The options of the command that say the same."""
    values = {
        "--digest": opening.digest,
        "--root-hash": opening.root_hash,
        "--hash-offset": opening.hash_offset,
        "--sidecar": None if opening.sidecar is None else _text(opening.sidecar),
        "--cache": opening.cache,
        "--timeout": None if opening.timeout is None else max(1, round(opening.timeout)),
        "--ca": opening.ca,
        "--header-file": opening.header_file,
    }
    given = {name: value for name, value in values.items() if value is not None}
    arguments = [f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}" for name, value in given.items()]
    if opening.cache is None:
        arguments.append("--no-cache")
    for device, digest in opening.devices:
        arguments.append(f"--device={_text(device)}@{digest}")
    arguments.extend(f"--mirror={_text(mirror)}" for mirror in opening.mirrors)
    return arguments


def _text(location: Location) -> str:
    if isinstance(location, (str, os.PathLike)):
        return os.fspath(location)
    raise TypeError("what Python code reads cannot be mounted")
