"""What the programs have in common: an example, as an image on a web server of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import verimount


class Example(NamedTuple):
    """An image on a server, and the tree that it was made of."""

    tree: Path
    url: str
    digest: str

    def filesystem(self) -> Any:
        import fsspec

        return fsspec.filesystem("verimount", fo=self.url, digest=self.digest)

    def options(self) -> dict[str, Any]:
        """The storage options of URLs that name the image."""
        return {"verimount": {"digest": self.digest}}


@contextmanager
def served(write: Callable[[Path], object]) -> Iterator[Example]:
    """The image of what `write` puts into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree, image = Path(folder, "tree"), Path(folder, "example.img")
        tree.mkdir()
        write(tree)
        digest = verimount.build(tree, image).digest
        # Another process: who reads a mount may wait for it with the interpreter's lock.
        server = [sys.executable, __file__, image]
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            try:
                yield Example(tree, f"http://127.0.0.1:{port}/{image.name}", digest)
            finally:
                process.kill()


class Ranges(BaseHTTPRequestHandler):
    """Sends ranges of its content."""

    protocol_version = "HTTP/1.1"
    # Its answers are small.
    disable_nagle_algorithm = True
    content = b""

    def do_GET(self) -> None:
        size = len(self.content)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"] or "bytes=0-")
        assert asked is not None, self.headers
        first, last = asked.groups()
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        self.send_response(206 if self.headers["Range"] else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        self.wfile.write(self.content[start:end])

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


if __name__ == "__main__":
    Ranges.content = Path(sys.argv[1]).read_bytes()
    with ThreadingHTTPServer(("127.0.0.1", 0), Ranges) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
