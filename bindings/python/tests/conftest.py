"""What the tests have in common. They test the installed package, and never the sources beside them."""

from __future__ import annotations

import importlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import verimount

# Which optional packages must not be absent, as `cargo xtask python` says it: `most` or `all`.
REQUIRE = os.environ.get("VERIMOUNT_REQUIRE_PACKAGES")

_absent: dict[str, int] = {}


# What takes gigabytes from PyPI, and is tested with Debian's.
HUGE = {"torch"}


def optional(name: str) -> Any:
    """A package that not every Python has; its tests are skipped without it, and counted."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if REQUIRE == "all" or (REQUIRE == "most" and name not in HUGE):
            raise
        _absent[name] = _absent.get(name, 0) + 1
        pytest.skip(f"{name} is not installed", allow_module_level=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if skipped := terminalreporter.stats.get("skipped"):
        terminalreporter.section(f"{len(skipped)} TESTS WERE SKIPPED", sep="!", red=True)
        for name, count in sorted(_absent.items()):
            terminalreporter.write_line(f"{count} need {name}, which is not installed")


def pytest_sessionstart(session: pytest.Session) -> None:
    source = Path(__file__).parent.parent / "python"
    if Path(verimount.__file__).is_relative_to(source):
        raise pytest.UsageError("the package is that of the sources: install the wheel")


SMALL = b"hello\n"
LARGE = random.Random(1).randbytes(3_000_001)


class Number:
    """What is taken for an integer, and has no other operation."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for each test, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tree(folder: Path) -> Path:
    """A directory to make images of."""
    tree = folder / "app"
    (tree / "docs").mkdir(parents=True)
    (tree / "docs" / "README.md").write_bytes(SMALL)
    (tree / "large").write_bytes(LARGE)
    (tree / "link").symlink_to("docs/README.md")
    (tree / "nowhere").symlink_to("missing")
    (tree / "empty").touch()
    os.chmod(tree / "large", 0o640)
    os.utime(tree / "large", (1, 1_234_567_890.5))
    return tree


@pytest.fixture
def digest(tree: Path) -> str:
    """That of `app.img`, which is made of the tree."""
    return verimount.build(tree, "app.img").digest


@pytest.fixture
def image(digest: str) -> verimount.Image:
    return verimount.Image("app.img", digest=digest)


@pytest.fixture
def weights(folder: Path) -> str:
    """The digest of a sealed file, `weights`."""
    Path("weights").write_bytes(LARGE)
    return verimount.seal("weights")


def program(name: str) -> str:
    """The path of a program of others; without it, tests are skipped and counted as for `optional`."""
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if found is None:
        if REQUIRE:
            pytest.fail(f"{name} is not installed")
        _absent[name] = _absent.get(name, 0) + 1
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def nginx(folder: Path) -> Iterator[str]:
    """The URL of the folder, from a server that serves ranges."""
    executable = program("nginx")
    state = folder / "nginx"
    state.mkdir()
    port = free_port()
    paths = "".join(
        f"{kind}_temp_path {state}/{kind}; "
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    )
    (state / "conf").write_text(
        f"daemon off; pid {state}/pid; error_log {state}/log; worker_processes 1;"
        f"{'user root;' if os.getuid() == 0 else ''}"
        f"events {{}} http {{ access_log off; {paths}"
        f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
    )
    server = subprocess.Popen([executable, "-e", f"{state}/log", "-c", f"{state}/conf"])
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(port: int) -> None:
    import socket
    import time

    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.025)
    pytest.fail("the server does not answer")


def descriptors(name: str) -> int:
    """How many this process has of a file in the test's folder."""
    links = Path("/proc/self/fd").iterdir()
    # That of the listing itself is gone.
    return [os.path.realpath(link) for link in links].count(os.path.realpath(name))


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
