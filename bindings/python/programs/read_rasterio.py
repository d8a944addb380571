"""rasterio reads a window of an image."""

import numpy
import rasterio
from rasterio.windows import Window
from served import served

pixels = numpy.random.default_rng(1).integers(0, 255, (3, 1024, 1024), dtype="uint8")
PROFILE = {
    "driver": "GTiff",
    "dtype": "uint8",
    "count": 3,
    "height": 1024,
    "width": 1024,
    "tiled": True,
    "crs": "EPSG:3857",
    "transform": rasterio.transform.from_origin(100, 200, 10, 10),
}


def write(tree):
    with rasterio.open(tree / "map.tif", "w", **PROFILE) as file:
        file.write(pixels)


with served(write) as example:
    with rasterio.open("map.tif", opener=example.filesystem()) as opened:
        window = opened.read(window=Window(300, 500, 200, 100))
        assert (window == pixels[:, 500:600, 300:500]).all()
        assert (opened.read() == pixels).all()
