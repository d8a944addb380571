"""Unpacks archives by Python's tarfile. Each line of the input is an archive, a tab and a directory."""

import sys
import tarfile

# Older versions have no filters, and unpack everything.
options = {"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}
for line in sys.stdin:
    archive, directory = line.rstrip("\n").split("\t")
    try:
        with tarfile.open(archive, "r:", errorlevel=2) as tar:
            tar.extractall(directory, numeric_owner=True, **options)
        print("done", flush=True)
    except Exception as error:
        print("refused:", repr(error).replace("\n", " "), flush=True)
