"""Maps a file and reads it, in order or at random places, by some processes at once; prints the seconds."""

import mmap
import multiprocessing
import sys
import time

import numpy

path, order, processes = sys.argv[1], sys.argv[2], int(sys.argv[3])
WORDS = 2_000_000


def read():
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    words = numpy.frombuffer(mapped, dtype=numpy.uint64)
    if order == "anywhere":
        words = words[places]
    return words.sum()


def wait_and_read(barrier):
    barrier.wait()
    read()


size = numpy.memmap(path, mode="r").size // 8
places = numpy.random.default_rng(1).integers(size, size=WORDS) if order == "anywhere" else None
if processes == 1:
    start = time.perf_counter()
    read()
else:
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(processes + 1)
    children = [fork.Process(target=wait_and_read, args=(barrier,)) for _ in range(processes)]
    for child in children:
        child.start()
    barrier.wait()
    start = time.perf_counter()
    for child in children:
        child.join()
print(time.perf_counter() - start)
