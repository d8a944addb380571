"""A cache as huggingface_hub lays it out, without its server: a snapshot is built, mounted and compared; a wrong byte is named."""

import hashlib
import os
import pathlib
import random

from huggingface_hub import file_download, snapshot_download

from common import files, mounted, step, succeeds, umount, verimount

HERE = pathlib.Path.cwd()
CACHE = HERE / "hub"
REVISION = "0123456789abcdef0123456789abcdef01234567"
rng = random.Random(1)


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def add(repository, name, content, blob):
    """Stores a file by the functions that huggingface_hub itself downloads with."""
    blob_path = repository / "blobs" / blob
    pointer = file_download._get_pointer_path(str(repository), REVISION, name)
    for path in (blob_path, pathlib.Path(pointer)):
        path.parent.mkdir(parents=True, exist_ok=True)
    incomplete = blob_path.with_suffix(".incomplete")
    incomplete.write_bytes(content)
    file_download._chmod_and_move(incomplete, blob_path)
    file_download._create_symlink(str(blob_path), pointer, new_blob=True)
    file_download._cache_commit_hash_for_specific_revision(str(repository), "main", REVISION)


def main():
    folder = file_download.repo_folder_name(repo_id="some/model", repo_type="model")
    repository = CACHE / folder
    large = {f"model-{n}.safetensors": rng.randbytes(400_000 + n) for n in range(3)}
    small = {"config.json": b"{}\n", "README.md": b"# Model\n", "tokenizer/vocab.txt": b""}
    # The same content under two names has one blob.
    large["copy.safetensors"] = large["model-0.safetensors"]
    for name, content in large.items():
        add(repository, name, content, hashlib.sha256(content).hexdigest())
    for name, content in small.items():
        add(repository, name, content, git_sha1(content))
    # What its own readers find.
    snapshot = pathlib.Path(
        snapshot_download("some/model", cache_dir=CACHE, local_files_only=True)
    )
    assert snapshot == repository / "snapshots" / REVISION, snapshot
    assert (snapshot / "config.json").is_symlink()

    image = HERE / "snapshot.img"
    build = ["build", snapshot, image, "--dereference", "--hugging-face"]
    digest = succeeds(*build)[0].split()[0]
    there = mounted(image, digest, HERE / "mnt")
    try:
        assert files(there) == files(snapshot) == {**large, **small}
        assert not any(path.is_symlink() for path in there.rglob("*"))
    finally:
        umount(there)
    step(f"a snapshot of {len(large) + len(small)} files: built and mounted")

    image.unlink()
    for name, content in {**large, **small}.items():
        blob = (snapshot / name).resolve()
        changed = bytearray(content or b"x")
        changed[rng.randrange(len(changed))] ^= 1
        for wrong in (bytes(changed), content + b"\n"):
            blob.write_bytes(wrong)
            code, out, errors = verimount(*build)
            named = [n for n in {**large, **small} if (snapshot / n).resolve() == blob]
            assert code == 1 and any(n in errors for n in named) and not image.exists(), errors
        blob.write_bytes(content)
    succeeds(*build)
    step("wrong bytes in each blob: named and refused")

    (snapshot / "extra").write_text("not a link")
    code, _, errors = verimount(*build)
    assert code == 1 and "extra" in errors, errors
    (snapshot / "extra").unlink()
    for target in ("nowhere", ".", "loop"):
        os.symlink(target, snapshot / "loop")
        code, _, errors = verimount(*build)
        assert code == 3 and "loop" in errors, errors
        (snapshot / "loop").unlink()
    step("files that are no blobs, and links to nothing or in a circle: named and refused")


main()
