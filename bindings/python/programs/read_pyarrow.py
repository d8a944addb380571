"""A dataset of pyarrow: tables in folders, filtered."""

import pyarrow
import pyarrow.dataset
from served import served

table = pyarrow.table({"id": range(500_000), "kind": [i % 7 for i in range(500_000)]})
with served(
    lambda tree: pyarrow.dataset.write_dataset(
        table, tree / "tables", format="parquet", partitioning=["kind"], partitioning_flavor="hive"
    )
) as example:
    dataset = pyarrow.dataset.dataset(
        "tables", filesystem=example.filesystem(), partitioning="hive"
    )
    wanted = (pyarrow.dataset.field("kind") == 3) & (pyarrow.dataset.field("id") > 250_000)
    found = dataset.to_table(filter=wanted)["id"].to_pylist()
    assert sorted(found) == [i for i in range(250_001, 500_000) if i % 7 == 3]
