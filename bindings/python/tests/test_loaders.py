"""Loaders that take bytes or files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from conftest import optional

import verimount
from test_errors import flip


@pytest.fixture
def model(folder: Path) -> verimount.Image:
    numpy = optional("numpy")
    stored = optional("safetensors.numpy")
    Path("model").mkdir()
    for shard in range(3):
        tensors = {f"{shard}.{n}": numpy.arange(n, n + 50_000, dtype="<f4") for n in range(3)}
        stored.save_file(tensors, f"model/{shard}.safetensors")
    return verimount.Image("model.img", digest=verimount.build("model", "model.img").digest)


def test_safetensors_are_loaded_from_bytes(model: verimount.Image) -> None:
    loader = optional("safetensors.numpy")
    for shard in range(3):
        tensors = loader.load(model.read_bytes(f"{shard}.safetensors"))
        for n in range(3):
            assert tensors[f"{shard}.{n}"][10] == n + 10


def test_safetensors_are_loaded_by_torch(model: verimount.Image) -> None:
    optional("torch")
    loader = optional("safetensors.torch")
    tensors = loader.load(model.read_bytes("1.safetensors"))
    assert tensors["1.2"][10].item() == 12


def test_torch_loads_weights_only(folder: Path) -> None:
    torch = optional("torch")
    torch.save({"w": torch.arange(10_000)}, "w.pt")
    with verimount.open("w.pt", digest=verimount.seal("w.pt")) as file:
        loaded = torch.load(io.BufferedReader(file), weights_only=True)
    assert loaded["w"][77].item() == 77


def test_a_bad_byte_is_never_loaded(model: verimount.Image) -> None:
    loader = optional("safetensors.numpy")
    flip("model.img", Path("model.img").stat().st_size // 4)
    with pytest.raises(verimount.Mismatch):
        for shard in range(3):
            loader.load(model.read_bytes(f"{shard}.safetensors"))
