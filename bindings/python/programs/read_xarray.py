"""xarray opens a NetCDF file and a store of zarr."""

import numpy
import xarray
from served import served

weather = xarray.Dataset(
    {"heat": (("time", "place"), numpy.random.default_rng(1).random((365, 400)))},
    coords={"time": numpy.arange(365)},
)


def write(tree):
    weather.to_netcdf(tree / "weather.nc", engine="h5netcdf")
    weather.to_zarr(tree / "weather.zarr", consolidated=False)


with served(write) as example:
    with example.filesystem().open("weather.nc") as file:
        with xarray.open_dataset(file, engine="h5netcdf") as opened:
            assert opened.sel(time=100).equals(weather.sel(time=100))
            assert opened.equals(weather)
    url = f"verimount://weather.zarr::{example.url}"
    assert xarray.open_zarr(url, consolidated=False, storage_options=example.options()).equals(weather)
