"""Hugging Face's datasets load tables."""

import os
import tempfile

with tempfile.TemporaryDirectory() as cache:
    os.environ["HF_HOME"] = cache
    import datasets
    import pandas
    from served import served

    rows = pandas.DataFrame({"id": range(20_000), "text": [f"row {i}" for i in range(20_000)]})
    with served(lambda tree: rows.to_csv(tree / "table.csv", index=False)) as example:
        options = {"verimount": {"fo": example.url, "digest": example.digest}}
        loaded = datasets.load_dataset(
            "csv",
            data_files="verimount://table.csv",
            download_config=datasets.DownloadConfig(storage_options=options),
        )
        assert loaded["train"].to_pandas().equals(rows)
