"""zarr reads an array by URL."""

import numpy
import zarr
from served import served

numbers = numpy.random.default_rng(1).random((1000, 1000))


def write(tree):
    array = zarr.create_array(str(tree), shape=numbers.shape, chunks=(100, 100), dtype="f8")
    array[:] = numbers


with served(write) as example:
    opened = zarr.open(f"verimount://::{example.url}", mode="r", storage_options=example.options())
    assert (opened[150:250, 150:250] == numbers[150:250, 150:250]).all()
    assert (opened[:] == numbers).all()
