"""anndata reads annotated matrices."""

import anndata
import numpy
import pandas
from served import served

cells = anndata.AnnData(
    numpy.random.default_rng(1).random((500, 200)).astype("float32"),
    obs=pandas.DataFrame({"kind": [f"kind {i % 5}" for i in range(500)]}, index=map(str, range(500))),
)


def write(tree):
    cells.write_h5ad(tree / "cells.h5ad")


with served(write) as example:
    local = anndata.read_h5ad(example.tree / "cells.h5ad")
    with example.filesystem().open("cells.h5ad") as file:
        read = anndata.read_h5ad(file)
    assert (read.X == cells.X).all()
    assert read.obs.equals(local.obs)
