#!/usr/bin/env bash
# fsspec 2026.9.0 (with aiohttp 3.14.5), http://, at a server without ranges such as Python's http.server:
# a file that is opened raises ValueError when it is read from the middle, and says why. cat_file(start, end) and cat_ranges() do
# not look at the status: they hand out the whole file in place of the range, without an error, and reference:// (kerchunk, virtual
# zarr) above them gives it as the chunk. One expects all of them to check what an open file checks.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check fsspec==2026.9.0 aiohttp==3.14.5
mkdir www
cat >try.py <<'P'
import functools, http.server, sys, threading
import fsspec

data = b"".join(b"%07d\n" % line for line in range(1 << 20))
with open("www/f", "wb") as file:
    file.write(data)

class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):  # a client that has seen enough
        pass

server = Server(("127.0.0.1", 0), functools.partial(Handler, directory="www"))
threading.Thread(target=server.serve_forever, daemon=True).start()
url = "http://127.0.0.1:%d/f" % server.server_port
fs = fsspec.filesystem("http")
start, end = 800_000, 800_008
print("asked for", data[start:end])
with fs.open(url) as file:
    file.seek(6 << 20)
    try:
        opened = file.read(8)
    except ValueError as error:
        opened = "ValueError"
        print("open, seek, read: ValueError:", str(error)[:60])
one, several = fs.cat_file(url, start, end), fs.cat_ranges([url], [start], [end])[0]
print("cat_file:", len(one), "bytes  cat_ranges:", len(several), "bytes")
chunk = fsspec.filesystem("reference", fo={"x": [url, start, 8]}, remote_protocol="http").cat("x")
print("reference:// to 8 bytes:", len(chunk), "bytes, which begin with", chunk[:8])
sys.exit(not (one == several == chunk == data and opened == "ValueError"))
P
v/bin/python try.py
