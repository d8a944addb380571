"""h5py reads a part of an array in chunks."""

import h5py
import numpy
from served import served

numbers = numpy.random.default_rng(1).random((2000, 500))


def write(tree):
    with h5py.File(tree / "numbers.h5", "w") as file:
        file.create_dataset("numbers", data=numbers, chunks=(100, 100), compression="gzip")


with served(write) as example:
    with example.filesystem().open("numbers.h5") as opened, h5py.File(opened) as file:
        assert (file["numbers"][500:700, 100:200] == numbers[500:700, 100:200]).all()
        assert (file["numbers"][:] == numbers).all()
