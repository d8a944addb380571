"""Polars reads columns of a table from an opened file."""

import polars
from served import served

rows = polars.DataFrame({"id": range(500_000), "kind": [i % 7 for i in range(500_000)]})
with served(lambda tree: rows.write_parquet(tree / "table.parquet")) as example:
    with example.filesystem().open("table.parquet") as file:
        assert polars.read_parquet(file, columns=["kind"]).equals(rows.select("kind"))
    with example.filesystem().open("table.parquet") as file:
        found = polars.scan_parquet(file).filter(polars.col("kind") == 3).collect()
        assert found.equals(rows.filter(polars.col("kind") == 3))
