"""DuckDB reads a table through fsspec."""

import duckdb
import pyarrow
import pyarrow.parquet
from served import served

table = pyarrow.table({"id": range(500_000), "kind": [i % 7 for i in range(500_000)]})
with served(lambda tree: pyarrow.parquet.write_table(table, tree / "table.parquet")) as example:
    connection = duckdb.connect()
    connection.register_filesystem(example.filesystem())
    query = "SELECT kind, sum(id) FROM '{}/table.parquet' GROUP BY kind ORDER BY kind"
    found = connection.sql(query.format("verimount:/")).fetchall()
    assert found == connection.sql(query.format(example.tree)).fetchall()
