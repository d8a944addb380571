"""The examples of docstrings run as they stand, and all types are those that they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import optional, run_python
from test_errors import flip

import verimount

MODULES = [verimount.__name__, *(
    f"verimount.{module.name}" for module in pkgutil.iter_modules(verimount.__path__)
)]


ROOT = Path(__file__).parents[3]

# The classes and functions whose examples open `weights` rather than `app.img`.
OF_WEIGHTS = {"verimount", "verimount.open", "verimount._make.digest"}


@pytest.fixture
def files(folder: Path) -> dict[str, str]:
    """What the examples read; returns the digest of each."""
    Path("app/docs").mkdir(parents=True)
    Path("app/docs/README.md").write_text("hello\n")
    Path("weights").write_bytes(bytes([7]) * 10_000)
    return {"app.img": verimount.build("app", "app.img").digest, "weights": verimount.seal("weights")}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, files: dict[str, str]) -> None:
    if name == "verimount.fs":
        optional("fsspec")
    if name == "verimount._mount" and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened")
    module = importlib.import_module(name)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        example.globs["verimount"] = verimount
        if example.name != "verimount._make.digest":
            is_of_weights = example.name in OF_WEIGHTS
            example.globs["digest"] = files["weights" if is_of_weights else "app.img"]
        runner = doctest.DocTestRunner()
        runner.run(example)
        assert runner.summarize(verbose=False).failed == 0, example.name


def test_the_manual(files: dict[str, str]) -> None:
    """What `docs/PYTHON.md` shows is what happens; what it only mentions is at least Python."""
    os.chmod("app", 0o755)
    os.chmod("app/docs", 0o755)
    os.chmod("app/docs/README.md", 0o644)
    manual = (ROOT / "docs/PYTHON.md").read_text()
    shown = "\n".join(re.findall(r"^```pycon\n(.*?)^```", manual, re.DOTALL | re.MULTILINE))
    example = doctest.DocTestParser().get_doctest(shown, {"flip": flip}, "PYTHON.md", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
    for code in re.findall(r"^```python\n(.*?)^```", manual, re.DOTALL | re.MULTILINE):
        compile(code, "PYTHON.md", "exec")


def test_the_readme(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python section runs as it stands."""
    Path("app/bin").mkdir()
    Path("app/bin/hello").write_text("hello\n")
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_every_public_name_has_a_docstring() -> None:
    for name in verimount.__all__:
        item = getattr(verimount, name)
        if inspect.isclass(item) or inspect.isroutine(item):
            assert item.__doc__, name


EXAMPLE = """
import zipfile

import verimount

with verimount.open("weights", digest="sha256:...", timeout=5.0) as file:
    data: bytes = file.read(10)
    file.readinto_at(bytearray(10), 5)
    zipfile.ZipFile(file)

image = verimount.Image("app.img", digest="sha256:...", cache="/cache")
for entry in image.iterdir("docs"):
    size: int = entry.stat().st_size
    text: str = (image / "docs" / entry.name).read_text()
    entry.open("rb").read()

built = verimount.build("app", "app.img", compress="zstd", progress=lambda step, done, total: None)
digest: str = built.digest

with verimount.mount("app.img", digest=digest) as mounted:
    names = [path.name for path in mounted.iterdir()]

try:
    image.read_bytes("x")
except verimount.Mismatch as error:
    where: tuple[str | None, int] = (error.path, error.offset)
except verimount.NotFound as error:
    print(error.filename)
"""

WRONG = """
import verimount

verimount.open("weights", digset="sha256:...")
verimount.open(5)
"""


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright", "--pythonpath", sys.executable]])
def test_types_of_programs(folder: Path, checker: list[str]) -> None:
    optional(checker[0])
    environment = os.environ | {"MYPY_CACHE_DIR": str(folder / "cache")}

    def check(code: str) -> subprocess.CompletedProcess[str]:
        Path("program.py").write_text(code)
        program = [sys.executable, "-m", *checker, "program.py"]
        return subprocess.run(program, capture_output=True, text=True, env=environment)

    done = check(EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall("error", check(WRONG).stdout)) >= 2


def test_stubs_are_those_of_the_extension_module(folder: Path) -> None:
    optional("mypy")
    program = [sys.executable, "-m", "mypy.stubtest", "verimount._verimount"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
