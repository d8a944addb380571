"""Measures the package: how long a model takes to load, how much memory that takes, and how reading scales.

    bench.py FOLDER [--gib 2] [--rounds 5]

The model is made in FOLDER, of 20 shards. What is compared is run in turns, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import safetensors.numpy

import verimount

SHARDS = 20
MIB = 1 << 20
THREADS = 8


def make_model(folder: Path, size: int) -> str:
    """The digest of `model.img`, with the shards in `model`."""
    model = folder / "model"
    if not model.is_dir():
        model.mkdir(parents=True)
        random = numpy.random.default_rng(1)
        rows = size // SHARDS // 8 // 4096 // 2
        for shard in range(SHARDS):
            tensors = {
                f"layer.{shard}.{n}": random.bytes(rows * 4096 * 2) for n in range(8)
            }
            arrays = {
                name: numpy.frombuffer(data, dtype="<u2").reshape(rows, 4096)
                for name, data in tensors.items()
            }
            safetensors.numpy.save_file(arrays, model / f"model-{shard:05}.safetensors")
    return verimount.build(model, folder / "model.img").digest


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "model").iterdir())


# How a model is loaded: returns its tensors.


def load_plain(folder: Path, digest: str) -> list[dict[str, Any]]:
    """Unverified."""
    return [safetensors.numpy.load_file(folder / "model" / name) for name in names(folder)]


def load_bytes(folder: Path, digest: str) -> list[dict[str, Any]]:
    """Verified bytes, for the function of safetensors that takes them."""
    image = verimount.Image(folder / "model.img", digest=digest)
    return [safetensors.numpy.load(image.read_bytes(name)) for name in names(folder)]


def load_tensors(folder: Path, digest: str) -> list[dict[str, Any]]:
    """Verified, each tensor where it stays."""
    return read_shards(folder, digest, lambda file, offset, size: file.read_at(offset, size))


def load_arrays(folder: Path, digest: str) -> list[dict[str, Any]]:
    """Verified, and copied into arrays."""

    def read(file: verimount.File, offset: int, size: int) -> Any:
        array = numpy.empty(size, dtype="u1")
        file.readinto_at(array, offset)
        return array

    return read_shards(folder, digest, read)


def read_shards(
    folder: Path, digest: str, read: Callable[[verimount.File, int, int], Any]
) -> list[dict[str, Any]]:
    image = verimount.Image(folder / "model.img", digest=digest)
    return [read_shard(image.open(name), read) for name in names(folder)]


def read_shard(file: verimount.File, read: Callable[[verimount.File, int, int], Any]) -> dict[str, Any]:
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        start, end = tensor["data_offsets"]
        content = read(file, 8 + length + start, end - start)
        dtype = {"U16": "<u2"}[tensor["dtype"]]
        tensors[name] = numpy.frombuffer(content, dtype).reshape(tensor["shape"])
    return tensors


def load_mounted(folder: Path, digest: str) -> list[dict[str, Any]]:
    """Verified by a mount, in the way of the first."""
    with verimount.mount(folder / "model.img", digest=digest) as mounted:
        return [safetensors.numpy.load_file(mounted / name) for name in names(folder)]


LOADERS: dict[str, Callable[[Path, str], list[dict[str, Any]]]] = {
    "plain": load_plain,
    "bytes": load_bytes,
    "tensors": load_tensors,
    "arrays": load_arrays,
    "mounted": load_mounted,
}


def child(loader: str, folder: Path, digest: str) -> None:
    """Loads once, and prints seconds, the bytes that were loaded, the peak of memory above what was there before, and the
    seconds of processors in this process."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    used = resource.getrusage(resource.RUSAGE_SELF)
    processor = used.ru_utime + used.ru_stime
    start = time.perf_counter()
    tensors = LOADERS[loader](folder, digest)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = memory("VmHWM") - before
    loaded = sum(array.nbytes for shard in tensors for array in shard.values())
    print(json.dumps([seconds, loaded, peak, used.ru_utime + used.ru_stime - processor]))


def memory(of: str) -> int:
    """What the kernel says of this process: `VmRSS` for now, `VmHWM` for the most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(of))


def load(loader: str, folder: Path, digest: str, cold: bool) -> list[float]:
    if cold:
        forget(folder)
    program = [sys.executable, __file__, str(folder), "--load", loader, "--digest", digest]
    return list(json.loads(subprocess.run(program, check=True, capture_output=True).stdout))


def forget(folder: Path) -> None:
    """Has the kernel drop what it has of these files."""
    for path in [folder / "model.img", *(folder / "model").iterdir()]:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_loading(folder: Path, digest: str, rounds: int) -> None:
    for cold in [True, False]:
        runs: dict[str, list[list[float]]] = {name: [] for name in LOADERS}
        hashed = []
        for turn in range(rounds):
            # Whoever comes first gets memory that nobody had before, which a hypervisor has to find.
            order = [*LOADERS][turn % len(LOADERS) :] + [*LOADERS][: turn % len(LOADERS)]
            for name in order:
                runs[name].append(load(name, folder, digest, cold))
            if not cold:
                start = time.perf_counter()
                digest_of = [verimount.command(), "digest", str(folder / "model.img")]
                subprocess.run(digest_of, check=True, capture_output=True)
                hashed.append(time.perf_counter() - start)
        medians = {name: statistics.median(run[0] for run in of) for name, of in runs.items()}
        bound = medians["plain"] + (statistics.median(hashed) if hashed else 0)
        print(f"\n{'cold' if cold else 'warm'}:")
        if hashed:
            print(f"  digest   {statistics.median(hashed):6.2f} s")
        for name, of in runs.items():
            seconds = [run[0] for run in of]
            processors = statistics.median(run[3] for run in of)
            above = max(run[2] - run[1] for run in of) / MIB
            print(
                f"  {name:8} {medians[name]:6.2f} s ({min(seconds):.2f}..{max(seconds):.2f}),"
                f" {medians[name] / bound:5.2f} of {'plain' if cold else 'plain + digest'},"
                f" processors {processors:5.2f} s,"
                f" peak {above:+5.0f} MiB above what is loaded"
            )


def measure_threads(folder: Path, digest: str, rounds: int) -> None:
    path = folder / "model.img"
    size = verimount.open(path, digest=digest).size // MIB
    plain = os.open(path, os.O_RDONLY)
    file = verimount.open(path, digest=digest)
    readers: dict[str, Callable[[int], object]] = {
        "os.pread": lambda piece: os.pread(plain, MIB, piece * MIB),
        "read_at": lambda piece: file.read_at(piece * MIB, MIB),
    }

    def seconds(read: Callable[[int], object], threads: int) -> float:
        def work(first: int) -> None:
            for piece in range(first, size, threads):
                read(piece)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - start

    print(f"\nreading {size} MiB in pieces of 1 MiB, warm:")
    taken: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for name, read in readers.items():
            for threads in [1, THREADS]:
                taken.setdefault((name, threads), []).append(seconds(read, threads))
    for name in readers:
        one, many = (statistics.median(taken[name, threads]) for threads in [1, THREADS])
        print(
            f"  {name:8} 1 thread {size / one:6.0f} MiB/s, {THREADS} threads {size / many:6.0f} MiB/s:"
            f" {one / many:.2f} times"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", choices=LOADERS)
    parser.add_argument("--digest")
    arguments = parser.parse_args()
    if arguments.load:
        child(arguments.load, arguments.folder, arguments.digest)
        return
    digest = make_model(arguments.folder, int(arguments.gib * (1 << 30)))
    measure_loading(arguments.folder, digest, arguments.rounds)
    measure_threads(arguments.folder, digest, arguments.rounds)


if __name__ == "__main__":
    main()
