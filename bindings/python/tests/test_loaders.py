"""Loaders that take bytes or files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def read_tensors(
    file: verimount.File, frombuffer: Callable[[Any, Any], Any], dtypes: dict[str, Any]
) -> dict[str, Any]:
    """As `docs/PYTHON.md` has it."""
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    start = file.tell()
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        first, end = tensor["data_offsets"]
        content = file.read_at(start + first, end - first)
        tensors[name] = frombuffer(content, dtypes[tensor["dtype"]]).reshape(tensor["shape"])
    return tensors


def test_safetensors_are_read_one_by_one(model: verimount.Image) -> None:
    numpy = optional("numpy")
    for shard in range(3):
        tensors = read_tensors(model.open(f"{shard}.safetensors"), numpy.frombuffer, {"F32": "<f4"})
        for n in range(3):
            assert tensors[f"{shard}.{n}"].shape == (50_000,)
            assert tensors[f"{shard}.{n}"][10] == n + 10


def test_safetensors_are_read_one_by_one_for_torch(model: verimount.Image) -> None:
    torch = optional("torch")

    def frombuffer(content: Any, dtype: Any) -> Any:
        return torch.frombuffer(bytearray(content), dtype=dtype)

    tensors = read_tensors(model.open("1.safetensors"), frombuffer, {"F32": torch.float32})
    assert tensors["1.2"][10].item() == 12


def test_safetensors_are_loaded_by_torch(model: verimount.Image) -> None:
    optional("torch")
    loader = optional("safetensors.torch")
    tensors = loader.load(model.read_bytes("1.safetensors"))
    assert tensors["1.2"][10].item() == 12


def test_torch_loads_weights_only(folder: Path) -> None:
    torch = optional("torch")
    torch.save({"w": torch.arange(10_000)}, "w.pt")
    with verimount.open("w.pt", digest=verimount.seal("w.pt")) as file:
        loaded = torch.load(file, weights_only=True)
    assert loaded["w"][77].item() == 77


def test_a_bad_byte_is_never_loaded(model: verimount.Image) -> None:
    loader = optional("safetensors.numpy")
    flip("model.img", Path("model.img").stat().st_size // 4)
    with pytest.raises(verimount.Mismatch):
        for shard in range(3):
            loader.load(model.read_bytes(f"{shard}.safetensors"))
