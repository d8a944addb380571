"""safetensors: a shard whole, from bytes, and tensors of it lazily, from a mount."""

import numpy
import safetensors.numpy
import verimount
from served import served

tensors = {f"layer.{i}": numpy.random.default_rng(i).random((256, 256)) for i in range(16)}
with served(lambda tree: safetensors.numpy.save_file(tensors, tree / "model.safetensors")) as example:
    image = verimount.Image(example.url, digest=example.digest)
    loaded = safetensors.numpy.load(image.read_bytes("model.safetensors"))
    assert all((loaded[name] == tensor).all() for name, tensor in tensors.items())
    with verimount.mount(example.url, digest=example.digest) as mounted:
        path = mounted / "model.safetensors"
        with safetensors.safe_open(path, framework="np", backend="pread") as file:
            assert (file.get_tensor("layer.7") == tensors["layer.7"]).all()
