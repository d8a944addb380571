"""webdataset streams samples from shards."""

import io
import tarfile

import webdataset
from served import served


def write(tree):
    for shard in range(3):
        with tarfile.open(tree / f"shard-{shard}.tar", "w") as tar:
            for sample in range(100):
                content = f"sample {shard} {sample}".encode()
                member = tarfile.TarInfo(f"{sample:05}.txt")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


with served(write) as example:
    filesystem = example.filesystem()
    webdataset.gopen_schemes["verimount"] = lambda url, *_: filesystem.open(url)
    shards = webdataset.WebDataset("verimount://shard-{0..2}.tar", shardshuffle=False)
    read = [sample["txt"] for sample in shards.decode()]
    assert read == [f"sample {shard} {sample}" for shard in range(3) for sample in range(100)]
