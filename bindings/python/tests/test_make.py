"""What makes images, seals and digests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import LARGE, Number

import verimount


def test_images_are_reproducible(tree: Path) -> None:
    one = verimount.build(tree, "one.img")
    other = verimount.build(tree, Path("other.img"))
    assert one.digest == other.digest
    assert one.notes == []
    assert Path("one.img").read_bytes() == Path("other.img").read_bytes()


def test_links_out_of_the_tree_are_told(tree: Path) -> None:
    (tree / "out").symlink_to("../../elsewhere")
    built = verimount.build(tree, "app.img")
    assert built.notes == ["1 links lead out of the tree, such as out"]


def test_options_of_images(tree: Path) -> None:
    options = {"exclude": ["docs/**", "nowhere"], "mtime": 12, "owner": (7, 8)}
    built = verimount.build(tree, "app.img", compress="lz4", **options)  # type: ignore[arg-type]
    image = verimount.Image("app.img", digest=built.digest)
    assert not image.exists("docs/README.md")
    status = image.stat("large")
    assert (status.st_mtime, status.st_uid, status.st_gid) == (12, 7, 8)
    assert image.read_bytes("large") == LARGE


def test_numbers_in_options(tree: Path) -> None:
    """They are taken as those of raw files: what is an integer, and nothing that would have to be rounded."""
    one = verimount.build(tree, "one.img", mtime=Number(12), owner=(Number(7), True))
    other = verimount.build(tree, "other.img", mtime=12, owner=(7, 1))
    assert one.digest == other.digest
    for wrong in [{"mtime": 12.0}, {"mtime": "12"}, {"owner": (7.0, 8)}]:
        with pytest.raises(TypeError):
            verimount.build(tree, "one.img", **wrong)  # type: ignore[arg-type]


def test_losses_are_told(tree: Path) -> None:
    os.chmod(tree / "large", 0o644)
    built = verimount.build(tree, "app.img", format="romfs")
    assert any("romfs does not store" in note for note in built.notes)
    assert verimount.Image("app.img", digest=built.digest).read_bytes("large") == LARGE
    with pytest.raises(verimount.WouldLose):
        verimount.build(tree, "app.img", format="romfs", strict=True)
    os.chmod(tree / "large", 0o600)
    with pytest.raises(verimount.WouldWiden):
        verimount.build(tree, "app.img", format="romfs")


def test_wrong_arguments(tree: Path) -> None:
    for wrong in [
        {"format": "ext4"},
        {"compress": "rar"},
        {"format": "romfs", "compress": "lz4"},
        {"exclude": ["["]},
    ]:
        with pytest.raises(ValueError):
            verimount.build(tree, "app.img", **wrong)  # type: ignore[arg-type]
    Path("precious").write_bytes(b"x" * 10_000)
    with pytest.raises(verimount.WouldReplace):
        verimount.build(tree, "precious")
    assert Path("precious").read_bytes() == b"x" * 10_000
    verimount.build(tree, "precious", replace=True)
    with pytest.raises(FileNotFoundError):
        verimount.build("missing", "app.img")


def test_seals_are_beside_or_in_the_file(folder: Path) -> None:
    Path("weights").write_bytes(LARGE)
    beside = verimount.seal("weights")
    os.remove("weights.verity")
    assert verimount.seal("weights", append=True) == beside
    with verimount.open("weights", digest=beside) as file:
        assert file.size == len(LARGE) and file.read() == LARGE
    with pytest.raises(verimount.AlreadyExists):
        verimount.seal("weights", append=True)
    with pytest.warns(UserWarning, match="precedence"):
        verimount.seal("weights")


CALLS = {
    "build": lambda progress: verimount.build("app", "new.img", progress=progress),
    "seal": lambda progress: verimount.seal("app/large", progress=progress),
    "digest": lambda progress: verimount.digest("app/large", progress=progress),
    "verify": lambda progress: verimount.verify("app.img", unpinned=True, progress=progress),
}


@pytest.mark.parametrize("call", CALLS)
def test_progress_is_reported_and_can_end_the_work(digest: str, call: str) -> None:
    before = sorted(Path().rglob("*"))
    with pytest.raises(verimount.Cancelled):
        CALLS[call](lambda *progress: False)

    class Enough(Exception):
        pass

    def raises(*progress: object) -> None:
        raise Enough

    with pytest.raises(Enough):
        CALLS[call](raises)
    assert sorted(Path().rglob("*")) == before
    reports: list[tuple[str, int, int]] = []
    CALLS[call](lambda *progress: reports.append(progress))
    step, done, total = reports[-1]
    assert step in ("build", "seal", "hash", "verify", "scan", "compare") and done == total > 0
    assert all(0 <= done for _, done, _ in reports)
