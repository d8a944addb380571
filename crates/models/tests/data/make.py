"""Makes the signatures in this folder again: python make.py, with model-signing 1.1.1 and pyOpenSSL. Keys are new each time."""

import pathlib
import tempfile

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, signing

HERE = pathlib.Path(__file__).parent
FILES = {
    "a.bin": b"x" * 2500,
    "sub/é b": b"2",
    "sub.txt": b"1",
    ".gitignore": b"ignored",
}


def key(folder, name, curve):
    pair = ec.generate_private_key(curve)
    private = folder / name
    private.write_bytes(
        pair.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public = pair.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (HERE / f"{name}.pem").write_bytes(public)
    return private


def sign(model, private, name, config):
    config = config.set_ignored_paths(paths=["model.sig"])
    signer = signing.Config().use_elliptic_key_signer(private_key=private)
    signer.set_hashing_config(config).sign(model, HERE / name)


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    model = folder / "model"
    for name, content in FILES.items():
        path = model / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    p256 = key(folder, "p256", ec.SECP256R1())
    p384 = key(folder, "p384", ec.SECP384R1())
    p521 = key(folder, "p521", ec.SECP521R1())
    whole = lambda hash: hashing.Config().use_file_serialization(hashing_algorithm=hash)
    shards = lambda: hashing.Config().use_shard_serialization(shard_size=1000)
    sign(model, p256, "files.sig", whole("sha256"))
    sign(model, p384, "shards.sig", shards())
    sign(model, p521, "blake2b.sig", whole("blake2"))
    sign(model, p256, "blake3.sig", whole("blake3"))
    sign(model / "a.bin", p256, "one.sig", whole("sha256"))
    sign(model / "a.bin", p384, "one-sharded.sig", shards())
