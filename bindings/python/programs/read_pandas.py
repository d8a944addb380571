"""pandas reads tables by URL."""

import pandas
from served import served

rows = pandas.DataFrame({"id": range(100_000), "text": [f"row {i}" for i in range(100_000)]})


def write(tree):
    rows.to_parquet(tree / "table.parquet")
    rows.to_csv(tree / "table.csv", index=False)


with served(write) as example:
    for name, read in [("table.parquet", pandas.read_parquet), ("table.csv", pandas.read_csv)]:
        url = f"verimount://{name}::{example.url}"
        assert read(url, storage_options=example.options()).equals(rows), name
