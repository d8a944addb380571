"""Folders that model_signing has signed: each builds, and nothing that was changed since does."""

import json
import os
import pathlib
import random
import shutil
import sys
import threading
import time

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing, verifying

from common import files, mounted, step, succeeds, umount, verimount

FOLDERS, CHANGES, SEED = map(int, sys.argv[2:5])
SHARD = 1000
HERE = pathlib.Path.cwd()
CURVES = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()]
METHODS = ["files", "shards"]
HASHES = ["sha256", "blake2"]


def pair(name, curve):
    key = ec.generate_private_key(curve)
    private, public = HERE / f"{name}.key", HERE / f"{name}.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return private, public


def config(method, hash):
    config = hashing.Config()
    if method == "files":
        config.use_file_serialization(hashing_algorithm=hash)
    else:
        config.use_shard_serialization(hashing_algorithm=hash, shard_size=SHARD)
    return config.set_ignored_paths(paths=["model.sig", "ignored"])


def fill(rng, folder):
    """A random model. With shards, an empty file has none, so that no file is empty."""
    folder.mkdir()
    directories = [folder]
    for number in range(rng.randint(0, 4)):
        directory = rng.choice(directories) / rng.choice([f"d{number}", f"é {number}", f"d.{number}"])
        directory.mkdir(exist_ok=True)
        (directory / "in").write_bytes(b"in")
        directories.append(directory)
    sizes = [1, SHARD - 1, SHARD, SHARD + 1, 3 * SHARD, 4096, 70_000]
    for number in range(rng.randint(1, 9)):
        name = rng.choice([f"f{number}", f"f {number}.bin", f"ü{number}", f"-{number}"])
        size = rng.choice(sizes + [rng.randint(1, 200_000)])
        # Some have the same content, some a hole.
        content = bytes(size) if rng.random() < 0.2 else rng.randbytes(size)
        path = rng.choice(directories) / name
        path.write_bytes(content)
        if rng.random() < 0.2:
            os.truncate(path, size + rng.randint(1, 300_000))
    if rng.random() < 0.5:
        (folder / "ignored").mkdir()
        (folder / "ignored" / "log").write_text("not signed")
    if rng.random() < 0.5:
        (folder / ".gitignore").write_text("ignored")


class Model:
    def __init__(self, rng, number, method):
        self.method, self.hash = method, rng.choice(HASHES)
        self.folder = HERE / f"{method}{number}"
        fill(rng, self.folder)
        self.private, self.public = pair(self.folder.name, rng.choice(CURVES))
        inside = rng.random() < 0.5
        self.signature = self.folder / "model.sig" if inside else HERE / f"{self.folder.name}.sig"
        self.sign(self.signature)

    def sign(self, to):
        signer = signing.Config().use_elliptic_key_signer(private_key=self.private)
        signer.set_hashing_config(config(self.method, self.hash)).sign(self.folder, to)

    def is_accepted_by_python(self, folder, signature, public):
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=public)
        # It cannot verify its own shards if it guesses their size, which it reads as a number with a fraction.
        verifier.set_hashing_config(config(self.method, self.hash))
        try:
            verifier.verify(folder, signature)
        except Exception:
            return False
        return True

    def build(self, folder, signature, public, image, *options):
        return verimount(
            "build", folder, image, "--model-signature", signature, "--model-key", public, *options
        )

    def signed(self):
        ignored = ("ignored/", ".gitignore", "model.sig")
        return {p: c for p, c in files(self.folder).items() if not p.startswith(ignored)}


def check_model(rng, model):
    """Builds it in several ways, mounts it, and verifies the signature again."""
    assert model.is_accepted_by_python(model.folder, model.signature, model.public)
    image = HERE / "image"
    options = rng.choice([[], [], ["--compress", "lz4"], ["--format", "romfs"]])
    code, out, errors = model.build(model.folder, model.signature, model.public, image, *options)
    assert code == 0, (model.folder, errors)
    for name in ["ignored", ".gitignore"]:
        assert (f"note: left out: {name}\n" in errors) == (model.folder / name).exists(), errors
    digest = out.split()[0]
    succeeds("verify", image, "--digest", digest, "--model-key", model.public)
    hint = json.loads(model.signature.read_text())["verificationMaterial"]["publicKey"]["hint"]
    assert hint in succeeds("info", image)[0]
    there = mounted(image, digest, HERE / "mnt")
    try:
        found = files(there)
        assert found.pop("model.sig") == model.signature.read_bytes()
        assert found == model.signed()
        # What is mounted is verified by the other program, too.
        assert model.is_accepted_by_python(there, there / "model.sig", model.public)
    finally:
        umount(there)
    image.unlink()


# Each change gets the copy of a folder, of its signature, and the key; and returns the key. It returns None if it does not
# fit the model.


def some_file(rng, folder):
    signed = [p for p in folder.rglob("*") if p.is_file() and "ignored" not in p.parts]
    return rng.choice([p for p in signed if p.name not in (".gitignore", "model.sig")])


def change_byte(rng, folder, signature, public):
    path = some_file(rng, folder)
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return public


def change_size(rng, folder, signature, public):
    path = some_file(rng, folder)
    content = path.read_bytes()
    path.write_bytes(rng.choice([content + b"\0", content[:-1] or b"\0\0", content * 2]))
    return public


def rename(rng, folder, signature, public):
    path = some_file(rng, folder)
    path.rename(path.with_name(path.name + "x"))
    return public


def remove(rng, folder, signature, public):
    some_file(rng, folder).unlink()
    return public


def exchange(rng, folder, signature, public):
    one, other = some_file(rng, folder), some_file(rng, folder)
    a, b = one.read_bytes(), other.read_bytes()
    if a == b:
        return None
    one.write_bytes(b)
    other.write_bytes(a)
    return public


def add_file(rng, folder, signature, public):
    path = rng.choice([folder, some_file(rng, folder).parent]) / "extra"
    path.write_bytes(b"extra")
    return public


def add_link(rng, folder, signature, public):
    (folder / "extra").symlink_to(some_file(rng, folder).relative_to(folder))
    return public


def other_key(rng, folder, signature, public):
    return pair("other", rng.choice(CURVES))[1]


def edit_bundle(rng, folder, signature, public):
    bundle = json.loads(signature.read_text())
    envelope = bundle["dsseEnvelope"]
    which = rng.randrange(5)
    if which == 0:
        envelope["payloadType"] += "x"
    elif which == 1:
        bundle["mediaType"] = bundle["mediaType"].replace("v0.3", "v0.2")
    elif which == 2:
        envelope["signatures"] = []
    elif which == 3:
        bundle["verificationMaterial"]["publicKey"]["hint"] = "00" * 32
    else:
        sig = envelope["signatures"][0]["sig"]
        envelope["signatures"][0]["sig"] = ("N" if sig[8] != "N" else "M").join([sig[:8], sig[9:]])
    signature.write_text(json.dumps(bundle))
    return public


def edit_statement(rng, folder, signature, public):
    import base64

    bundle = json.loads(signature.read_text())
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    resources = statement["predicate"]["resources"]
    which = rng.randrange(4)
    if which == 0:
        resources.reverse()
    elif which == 1:
        resources.pop()
    elif which == 2:
        resources[0]["digest"] = "00" * (len(resources[0]["digest"]) // 2)
    else:
        statement["subject"][0]["name"] += "x"
    payload = json.dumps(statement).encode()
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    signature.write_text(json.dumps(bundle))
    return public


def of_other(rng, folder, signature, public):
    """The signature of other content, with the right key."""
    path = some_file(rng, folder)
    content = path.read_bytes()
    path.write_bytes(content + b"other")
    MODEL.sign_folder(folder, signature)
    path.write_bytes(content)
    return public


def swap_while_read(rng, folder, signature, public):
    """A file is exchanged again and again, and is wrong whenever it is whole."""
    path = some_file(rng, folder)
    content = path.read_bytes()
    ended = threading.Event()

    def exchange():
        number = 0
        while not ended.is_set():
            number += 1
            other = bytearray(content)
            other[number % len(other)] ^= 0xFF
            temporary = folder.parent / "exchanged"
            temporary.write_bytes(other)
            if number % 2:
                temporary.replace(path)
            else:
                path.write_bytes(other)
            time.sleep(0.0005)

    first = bytearray(content)
    first[0] ^= 0xFF
    path.write_bytes(first)
    thread = threading.Thread(target=exchange)
    thread.start()
    ENDS.append(lambda: (ended.set(), thread.join()))
    return public


ENDS = []
KINDS = [
    change_byte,
    change_size,
    rename,
    remove,
    exchange,
    add_file,
    add_link,
    other_key,
    edit_bundle,
    edit_statement,
    of_other,
    swap_while_read,
]


def sign_folder(self, folder, to):
    signer = signing.Config().use_elliptic_key_signer(private_key=self.private)
    signer.set_hashing_config(config(self.method, self.hash)).sign(folder, to)


Model.sign_folder = sign_folder


def check_change(rng, model, change):
    """Both programs refuse the change. Returns whether it fits the model."""
    global MODEL
    MODEL = model
    folder, signature = HERE / "changed", HERE / "changed.sig"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model.folder, folder)
    shutil.copy(model.signature, signature)
    image = HERE / "refused"
    public = change(rng, folder, signature, model.public)
    if public is None:
        return False
    try:
        options = rng.choice([[], [], ["--compress", "lz4"], ["--format", "romfs"]])
        code, out, errors = model.build(folder, signature, public, image, *options)
        about = (change.__name__, model.folder.name, options, code, out, errors)
        assert code in (1, 3) and not out and not image.exists(), about
        assert code == 1 or change is swap_while_read or "not supported" in errors, about
        assert not model.is_accepted_by_python(folder, signature, public), about
    finally:
        while ENDS:
            ENDS.pop()()
    return True


def main():
    rng = random.Random(SEED)
    models = []
    for method in METHODS:
        for number in range(FOLDERS):
            model = Model(rng, number, method)
            check_model(rng, model)
            models.append(model)
        step(f"{FOLDERS} folders signed by {method}: built, mounted and verified by both")
    counts = dict.fromkeys(KINDS, 0)
    while sum(counts.values()) < CHANGES:
        change = min(KINDS, key=counts.get)
        if check_change(rng, rng.choice(models), change):
            counts[change] += 1
    shown = ", ".join(f"{change.__name__} {count}" for change, count in counts.items())
    step(f"{CHANGES} changes refused by both: {shown}")
    # One file, sealed.
    single = HERE / "single"
    single.write_bytes(rng.randbytes(300_000))
    for method in METHODS:
        model = models[0]
        signer = signing.Config().use_elliptic_key_signer(private_key=model.private)
        signer.set_hashing_config(config(method, "sha256")).sign(single, HERE / "single.sig")
        check = ["--model-signature", HERE / "single.sig", "--model-key", model.public]
        succeeds("seal", single, *check)
        content = single.read_bytes()
        single.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        code, _, errors = verimount("seal", single, *check)
        assert code == 1 and "instead of" in errors, (code, errors)
        single.write_bytes(content)
    step("a signed file: sealed, and refused with a wrong byte")


main()
