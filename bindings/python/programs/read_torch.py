"""PyTorch's loader reads files of an image in four workers."""

import torch
import verimount
from served import served


class Files(torch.utils.data.Dataset):
    """The files of an image, each a row of numbers."""

    def __init__(self, image):
        self.image = image
        self.names = sorted(entry.name for entry in image.iterdir())

    def __len__(self):
        return len(self.names)

    def __getitem__(self, at):
        return torch.frombuffer(bytearray(self.image.read_bytes(self.names[at])), dtype=torch.uint8)


def write(tree):
    for number in range(200):
        (tree / f"{number:03}").write_bytes(bytes([number]) * 1000)


if __name__ == "__main__":
    with served(write) as example:
        files = Files(verimount.Image(example.url, digest=example.digest))
        for method in ["fork", "spawn"]:
            loader = torch.utils.data.DataLoader(
                files, batch_size=16, num_workers=4, multiprocessing_context=method
            )
            rows = torch.cat(list(loader))
            assert (rows == torch.arange(200, dtype=torch.uint8).repeat_interleave(1000).reshape(200, 1000)).all()
