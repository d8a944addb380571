"""Images as a file system of fsspec."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import subprocess
import threading
from pathlib import Path
from uuid import UUID

import pytest
from conftest import LARGE, SMALL, optional, program

import verimount
from test_errors import flip

fsspec = optional("fsspec")

from verimount.fs import VerimountFileSystem  # noqa: E402


@pytest.fixture
def fs(digest: str) -> VerimountFileSystem:
    return VerimountFileSystem("app.img", digest=digest)


def test_what_is_there(fs: VerimountFileSystem, tree: Path, digest: str) -> None:
    names = ["docs", "empty", "large", "link", "nowhere"]
    assert fs.ls("", detail=False) == names == fs.ls("verimount://", detail=False)
    assert fs.ls("/docs", detail=False) == ["/docs/README.md"]
    assert fs.ls("large", detail=False) == ["large"]
    info = fs.info("large")
    assert (info["name"], info["size"], info["type"]) == ("large", len(LARGE), "file")
    for path in ["large", "/large", "verimount://large", "verimount:///large"]:
        assert info["mtime"] == (tree / "large").stat().st_mtime == fs.modified(path).timestamp()
        assert fs.created(path) == fs.modified(path) and fs.ukey(path) == info["ETag"]
    assert fs.info("docs")["type"] == "directory" and fs.isdir("docs") and not fs.isdir("large")
    assert fs.info("link")["type"] == "file" and fs.info("link")["destination"] == "docs/README.md"
    assert fs.info("nowhere")["type"] == "link"
    assert fs.find("") == ["docs/README.md", "empty", "large", "link", "nowhere"]
    assert fs.glob("**/*.md") == ["docs/README.md"] and fs.glob("/**/*.md") == ["/docs/README.md"]
    assert not fs.exists("missing") and fs.size("large") == len(LARGE)
    for missing in [fs.info, fs.ls, fs.cat_file, fs.open, fs.ukey]:
        with pytest.raises(FileNotFoundError):
            missing("missing")
    assert digest in fs.fsid


def test_links_to_directories_are_not_followed_below(folder: Path) -> None:
    Path("tree/bin").mkdir(parents=True)
    Path("tree/bin/tool").touch()
    Path("tree/bin/X11").symlink_to(".")
    fs = VerimountFileSystem("tree.img", digest=verimount.build("tree", "tree.img").digest)
    assert fs.find("") == ["bin/X11", "bin/tool"]
    assert fs.glob("**/tool") == ["bin/tool"]
    assert [path for path, _, _ in fs.walk("")] == ["", "bin"]
    assert fs.isdir("bin/X11") and fs.ls("bin/X11", detail=False) == ["bin/X11/X11", "bin/X11/tool"]
    fs.get("bin", "copied", recursive=True)
    assert sorted(os.listdir("copied")) == ["X11", "tool"]


def test_what_is_in_it(fs: VerimountFileSystem) -> None:
    assert fs.cat_file("large") == LARGE
    for start, end in [(5, 10), (None, 10), (-10, None), (-20, -10), (10, 5), (0, 1 << 40)]:
        assert fs.cat_file("large", start=start, end=end) == LARGE[start:end]
    assert fs.cat_ranges(["large", "link"], [5, 0], [9, 3]) == [LARGE[5:9], SMALL[:3]]
    assert fs.cat(["docs/README.md", "link"]) == {"docs/README.md": SMALL, "link": SMALL}
    with fs.open("large") as file:
        file.seek(100)
        assert file.read(50) == LARGE[100:150]
    with fs.open("link", "r") as file:
        assert file.read() == "hello\n"
    fs.get("docs", "copied", recursive=True)
    assert Path("copied/README.md").read_bytes() == SMALL


def test_ranges_are_slices_and_fail_alone(fs: VerimountFileSystem) -> None:
    bounds = [None, 0, 5, -5, 10**6, 2**40, -(2**40)]
    slices = [(start, end) for start in bounds for end in bounds]
    read = fs.cat_ranges(["large"] * len(slices), *map(list, zip(*slices)))
    assert read == [LARGE[start:end] for start, end in slices]
    assert fs.cat_ranges(["large", "/link"], 1, 4) == [LARGE[1:4], SMALL[1:4]]
    assert fs.cat_ranges([], [], []) == []
    first, missing, directory, last = fs.cat_ranges(["large", "missing", "docs", "link"], 0, 3)
    assert (first, last) == (LARGE[:3], SMALL[:3])
    assert isinstance(missing, FileNotFoundError) and isinstance(directory, IsADirectoryError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["large", "missing"], 0, 3, on_error="raise")
    with pytest.raises(ValueError):
        fs.cat_ranges(["large"], [0, 1], 3)
    found = fs.cat(["large", "docs"], recursive=True, on_error="omit")
    assert found == {"large": LARGE, "docs/README.md": SMALL}
    assert fs.cat("large") == LARGE and fs.cat(["large"]) == {"large": LARGE}


def test_ranges_are_read_side_by_side(tree: Path) -> None:
    (tree / "large").write_bytes(os.urandom(8 << 20))
    content = (tree / "large").read_bytes()
    digest = verimount.build(tree, "many.img").digest
    parties, met = threading.Barrier(4), threading.Event()

    class Source:
        """Answers the first four only together."""

        name = "many.img"
        size = os.stat("many.img").st_size

        def read_at(self, offset: int, length: int, /) -> bytes:
            if armed and not met.is_set():
                parties.wait(60)
                met.set()
            return image[offset : offset + length]

    armed, image = False, Path("many.img").read_bytes()
    fs = VerimountFileSystem(Source(), digest=digest)
    assert fs.cat_file("large", 0, 1) == content[:1]
    armed = True
    starts = [place << 20 for place in range(1, 8)]
    read = fs.cat_ranges(["large"] * 7, starts, [start + 1000 for start in starts])
    assert read == [content[start : start + 1000] for start in starts]


def test_an_open_file_is_what_users_of_fsspec_look_for(fs: VerimountFileSystem) -> None:
    with fs.open("/large", block_size=4096) as file:
        assert (file.fs, file.path, file.blocksize) == (fs, "/large", 4096)
        assert (file.size, file.mode, file.name) == (len(LARGE), "rb", "/large")
        file.seek(100_000)
        copy = pickle.loads(pickle.dumps(file))
    assert copy.fs.fsid == fs.fsid and copy.path == "/large" and copy.blocksize == 4096
    assert copy.read(10) == LARGE[100_000:100_010]


def test_what_stands_for_content(fs: VerimountFileSystem, tree: Path) -> None:
    before = {name: (fs.ukey(name), fs.checksum(name)) for name in ["large", "link"]}
    for values in zip(*before.values()):
        assert len(set(values)) == 2
    for entry in [fs.info("large"), *fs.ls("", detail=True)]:
        assert entry["ETag"] == fs.ukey(entry["name"])
    assert VerimountFileSystem("app.img", digest=fs.image.digest).ukey("large") == before["large"][0]
    (tree / "large").write_bytes(b"x")
    digest = verimount.build(tree, "other.img").digest
    other = VerimountFileSystem("other.img", digest=digest)
    assert other.ukey("large") != before["large"][0]
    assert other.checksum("large") != before["large"][1]


def test_what_stands_for_content_of_a_root_hash(digest: str) -> None:
    command = [verimount.command(), "seal", "--format", "dm-verity", "app.img"]
    root_hash = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    fs = VerimountFileSystem("app.img", root_hash=root_hash)
    assert fs.ukey("large") == f"{root_hash}:/large"
    assert fs.checksum("large") != fs.checksum("link")


def test_devices_are_part_of_what_stands_for_content(folder: Path) -> None:
    """The digest of an image does not cover them: two images that are the same show other files with other devices."""
    seen = []
    for content in [LARGE[:65_536], LARGE[-65_536:]]:
        name = f"{len(seen)}"
        Path(name).mkdir()
        Path(name, "file").write_bytes(content)
        device = f"{name}.blob"
        options = ["--quiet", "-T0", "-U", str(UUID(int=1)), "--chunksize=4096", f"--blobdev={device}"]
        subprocess.run([program("mkfs.erofs"), *options, f"{name}.img", name], check=True)
        devices = [(device, verimount.seal(device))]
        fs = VerimountFileSystem(f"{name}.img", digest=verimount.seal(f"{name}.img"), devices=devices)
        assert fs.cat_file("file") == content
        seen.append((fs.ukey("file"), fs.info("file")["ETag"], fs.fsid, fs.image / "file", fs.image.digest))
    *others, digests = zip(*seen)
    assert len(set(digests)) == 1
    for one, other in others:
        assert one != other


def test_nothing_can_be_written(fs: VerimountFileSystem) -> None:
    Path("local").write_bytes(b"x")
    for write in [
        lambda: fs.open("new", "wb"),
        lambda: fs.open("large", "ab"),
        lambda: fs.pipe("new", b"x"),
        lambda: fs.pipe_file("new", b"x"),
        lambda: fs.put("local", "new"),
        lambda: fs.put_file("local", "new"),
        lambda: fs.mkdir("new"),
        lambda: fs.makedirs("new/er"),
        lambda: fs.rmdir("docs"),
        lambda: fs.rm("large"),
        lambda: fs.rm("docs", recursive=True),
        lambda: fs.rm_file("large"),
        lambda: fs.mv("large", "new"),
        lambda: fs.copy("large", "new"),
        lambda: fs.cp_file("large", "new"),
        lambda: fs.touch("large"),
    ]:
        with pytest.raises(OSError) as raised:
            write()
        assert raised.value.errno == 30


def test_trust_is_said_in_the_options_only(digest: str) -> None:
    for url in ["verimount://large::app.img", f"verimount://large?digest={digest}::app.img"]:
        with pytest.raises(verimount.NotTrusted):
            fsspec.open(url).open()
    with pytest.raises(verimount.WrongContent):
        wrong = {"digest": "sha256:" + "0" * 64}
        fsspec.open("verimount://large::app.img", verimount=wrong).open()
    with fsspec.open("verimount://large::app.img", verimount={"digest": digest}) as file:
        assert file.read() == LARGE
    with pytest.raises(TypeError, match="digset"):
        VerimountFileSystem("app.img", digset=digest)
    with fsspec.open("verimount://large", fo="app.img", digest=digest) as file:
        assert file.read() == LARGE
    # This package reads it, and would not heed them.
    with pytest.raises(TypeError, match="endpoint_url, key"):
        options = {"key": "me", "endpoint_url": "http://127.0.0.1:1"}
        VerimountFileSystem("b/app.img", "s3", options, digest=digest)


def test_what_is_wrong_is_named(digest: str) -> None:
    with pytest.raises(ValueError, match="the image is missing"):
        fsspec.open("verimount://large", verimount={"digest": digest}).open()
    with pytest.raises(TypeError, match="no option location, but fo, "):
        fsspec.filesystem("verimount", location="app.img", digest=digest)
    local = fsspec.filesystem("verimount", fo=Path("app.img").resolve().as_uri(), digest=digest)
    assert local.cat_file("large") == LARGE


def test_other_file_systems_hold_images(digest: str, tree: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/images/app.img", Path("app.img").read_bytes())
    by_url = fsspec.filesystem("verimount", fo="memory://images/app.img", digest=digest)
    assert by_url.cat_file("large") == LARGE
    url = "verimount://docs/README.md::memory://images/app.img"
    with fsspec.open(url, verimount={"digest": digest}) as file:
        assert file.read() == SMALL
    damaged = bytearray(Path("app.img").read_bytes())
    damaged[damaged.index(LARGE[:100])] ^= 1
    memory.pipe("/images/app.img", bytes(damaged))
    VerimountFileSystem.clear_instance_cache()
    with pytest.raises(verimount.Mismatch):
        with fsspec.open(url.replace("docs/README.md", "large"), verimount={"digest": digest}) as file:
            file.read()


def test_a_bad_byte_is_an_error(fs: VerimountFileSystem) -> None:
    flip("app.img", Path("app.img").read_bytes().index(LARGE[2_000_000:2_000_100]))
    with pytest.raises(verimount.Mismatch):
        fs.cat_file("large")
    assert fs.cat_file("large", end=1_000_000) == LARGE[:1_000_000]


@pytest.fixture
def damaged(folder: Path) -> VerimountFileSystem:
    """A file system with a directory of which a block is damaged, `below`, and links: to a file there, and to itself."""
    Path("tree/below").mkdir(parents=True)
    for number in range(1000):
        Path(f"tree/below/a-file-of-many-{number:04}").touch()
    Path("tree/link").symlink_to("below/a-file-of-many-0501")
    Path("tree/loop").symlink_to("loop")
    digest = verimount.build("tree", "tree.img").digest
    flip("tree.img", Path("tree.img").read_bytes().index(b"a-file-of-many-0500"))
    return VerimountFileSystem("tree.img", digest=digest)


def test_a_damaged_directory_is_not_left_out(damaged: VerimountFileSystem) -> None:
    fs, inside = damaged, "below/a-file-of-many-0500"
    assert fs.isdir("below")
    for read in [
        lambda: fs.find(""),
        lambda: fs.glob("**/a-file*"),
        lambda: fs.glob("below/*"),
        lambda: list(fs.walk("")),
        lambda: fs.get("below", "copied", recursive=True),
        lambda: fs.exists(inside),
        lambda: fs.isfile(inside),
        lambda: fs.isdir(inside),
    ]:
        with pytest.raises(verimount.Mismatch):
            read()
    assert fs.find("missing") == [] and list(fs.walk("missing")) == []
    with pytest.raises(FileNotFoundError):
        list(fs.walk("missing", on_error="raise"))


def test_a_link_whose_target_cannot_be_read_is_an_error(damaged: VerimountFileSystem) -> None:
    assert damaged.info("loop")["type"] == "link"
    with pytest.raises(verimount.Mismatch):
        damaged.info("link")


def _read(fs: VerimountFileSystem, file: object, number: int) -> tuple[bytes, bytes, str]:
    os.chdir("/")
    read = file.read(20)  # type: ignore[attr-defined]
    return fs.cat_file("large", number, number + 100), read, fs.ukey("large")


def test_it_is_pickled_to_workers(digest: str) -> None:
    # What is found is pinned.
    fs = VerimountFileSystem("app.img", unpinned=True)
    file = fs.open("large")
    file.seek(30)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(4, context) as pool:
        results = [pool.submit(_read, fs, file, number) for number in range(16)]
        for number, result in enumerate(results):
            expected = LARGE[number : number + 100], LARGE[30:50], fs.ukey("large")
            assert result.result(120) == expected
    copy = pickle.loads(pickle.dumps(fs))
    assert copy.cat_file("large") == LARGE and copy.image.digest == digest
    pickled = pickle.dumps(copy)
    VerimountFileSystem.clear_instance_cache()
    Path("app/large").write_bytes(b"x")
    verimount.build("app", "app.img")
    with pytest.raises(verimount.WrongContent):
        pickle.loads(pickled)


def test_a_pickle_has_the_size(digest: str) -> None:
    """A root hash does not cover it."""
    command = [verimount.command(), "seal", "--format", "dm-verity", "app.img"]
    root_hash = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    make, (cls, location, options, size) = VerimountFileSystem("app.img", root_hash=root_hash).__reduce__()
    assert make(cls, location, options, size).cat_file("large") == LARGE
    with pytest.raises(verimount.WrongContent, match="size"):
        make(cls, location, options, size - 4096)


# What others read through a chained URL from a server.


@pytest.fixture
def table(folder: Path, nginx: str) -> tuple[str, dict[str, object]]:
    """The end of a URL, and the options for it, of an image with a table in two formats."""
    pandas = optional("pandas")
    optional("aiohttp")
    Path("tables").mkdir()
    frame = pandas.DataFrame({"number": range(1000), "text": [f"{n:04}" for n in range(1000)]})
    frame.to_csv("tables/table.csv", index=False)
    optional("pyarrow")
    frame.to_parquet("tables/table.parquet")
    digest = verimount.build("tables", "tables.img").digest
    return f"::{nginx}/tables.img", {"verimount": {"digest": digest}}


def test_pandas_reads_it(table: tuple[str, dict[str, object]]) -> None:
    pandas = optional("pandas")
    end, options = table
    frame = pandas.read_csv(f"verimount://table.csv{end}", storage_options=options)
    assert frame["number"].sum() == 499_500
    frame = pandas.read_parquet(f"verimount://table.parquet{end}", storage_options=options)
    assert frame["text"][999] == "0999"


def test_pyarrow_reads_it(table: tuple[str, dict[str, object]]) -> None:
    parquet = optional("pyarrow.parquet")
    end, options = table
    fs, path = fsspec.url_to_fs(f"verimount://table.parquet{end}", **options)
    assert parquet.read_table(path, filesystem=fs).num_rows == 1000


def test_directories_of_parquet_are_read(folder: Path) -> None:
    pyarrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    dataset = optional("pyarrow.dataset")
    Path("tree/hive/part=1").mkdir(parents=True)
    parquet.write_table(pyarrow.table({"x": [1]}), "tree/hive/part=1/a.parquet")
    fs = VerimountFileSystem("tree.img", digest=verimount.build("tree", "tree.img").digest)
    for path in ["hive", "/hive"]:
        assert parquet.read_table(path, filesystem=fs).num_rows == 1
        assert dataset.dataset(path, filesystem=fs).count_rows() == 1


def test_dask_reads_it(table: tuple[str, dict[str, object]]) -> None:
    dataframe = optional("dask.dataframe")
    end, options = table
    frame = dataframe.read_csv(f"verimount://table.csv{end}", storage_options=options)
    total = frame["number"].sum().compute(scheduler="processes", num_workers=2)
    assert total == 499_500


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_datasets_reads_it(
    table: tuple[str, dict[str, object]], nginx: str, kind: str, streaming: bool
) -> None:
    datasets = optional("datasets")
    # Of a chained URL, datasets passes on the options of its last part only.
    digest = verimount.Image("tables.img", unpinned=True).digest
    options = {"verimount": {"fo": f"{nginx}/tables.img", "digest": digest}}
    rows = datasets.load_dataset(
        kind,
        data_files=f"verimount://table.{kind}",
        storage_options=options,
        split="train",
        streaming=streaming,
        cache_dir="datasets",
    )
    assert sum(row["number"] for row in rows) == 499_500


@pytest.fixture
def twins(folder: Path) -> list[dict[str, object]]:
    """Options for two images that have all but the content in common: the path, size and time of their file."""
    options: list[dict[str, object]] = []
    for number in [1, 2]:
        Path(f"{number}").mkdir()
        Path(f"{number}/table.csv").write_text(f"number\n{number}\n")
        digest = verimount.build(f"{number}", f"{number}.img", mtime=0).digest
        options.append({"fo": f"{number}.img", "digest": digest})
    return options


def test_datasets_tells_images_apart(twins: list[dict[str, object]]) -> None:
    """As `docs/PYTHON.md` has it: without a configuration, it keeps a download by its URL alone."""
    datasets = optional("datasets")
    seen = []
    for options in twins:
        rows = datasets.load_dataset(
            "csv",
            data_files="verimount://table.csv",
            download_config=datasets.DownloadConfig(storage_options={"verimount": options}),
            split="train",
            cache_dir="datasets",
        )
        seen.append(rows[0]["number"])
    assert seen == [1, 2]


def test_a_cache_that_checks_files_tells_images_apart(twins: list[dict[str, object]]) -> None:
    kept = {"cache_storage": "kept", "check_files": True}
    seen = []
    for options in twins:
        with fsspec.open("filecache::verimount://table.csv", filecache=kept, verimount=options) as file:
            seen.append(file.read())
    assert seen == [b"number\n1\n", b"number\n2\n"]


def test_zarr_reads_it(folder: Path, nginx: str) -> None:
    zarr = optional("zarr")
    numpy = optional("numpy")
    optional("aiohttp")
    array = numpy.arange(10_000).reshape(100, 100)
    zarr.save("data.zarr", array)
    digest = verimount.build("data.zarr", "data.img").digest
    options = {"verimount": {"digest": digest}}
    url = f"verimount://::{nginx}/data.img"
    opened = zarr.open(url, mode="r", storage_options=options)
    assert (opened[:] == array).all()


def test_zarr_does_not_fill_in_a_damaged_chunk(folder: Path) -> None:
    zarr = optional("zarr")
    numpy = optional("numpy")
    array = numpy.random.default_rng(1).random((200, 200))
    zarr.save("data.zarr", array)
    digest = verimount.build("data.zarr", "data.img").digest
    chunk = max(Path("data.zarr").rglob("*"), key=lambda path: path.stat().st_size).read_bytes()
    middle = len(chunk) // 2
    flip("data.img", Path("data.img").read_bytes().index(chunk[middle : middle + 50]))
    options = {"fo": "data.img", "digest": digest}
    opened = zarr.open("verimount://", mode="r", storage_options=options)
    with pytest.raises(verimount.Mismatch):
        opened[:]


def test_a_wrong_byte_from_a_server_is_never_read(table: tuple[str, dict[str, object]]) -> None:
    pandas = optional("pandas")
    end, options = table
    flip("tables.img", Path("tables.img").read_bytes().index(b"0500"))
    VerimountFileSystem.clear_instance_cache()
    with pytest.raises(verimount.Mismatch):
        pandas.read_csv(f"verimount://table.csv{end}", storage_options=options)
