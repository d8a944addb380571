#!/usr/bin/env bash
# CPython 3.11.7, http.client and urllib.request: a transfer that breaks off is an error for read(), and none for read(n).
# With a Content-Length of 100000 and a connection that ends after 5000 bytes, curl exits with 18 and read() raises IncompleteRead, so one
# expects that of all ways to read. read(n), readinto() and what is built on them (shutil.copyfileobj, iteration over lines, io.BufferedReader)
# see the ordinary end of a file: a download by copyfileobj is short and looks complete. (HTTPResponse.length is what is still missing.)
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 - <<'P'
import http.client, http.server, io, platform, shutil, subprocess, sys, threading, urllib.request

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"line\n" * 1000)
    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
def copied(answer):
    into = io.BytesIO()
    shutil.copyfileobj(answer, into)
    return len(into.getvalue())

ways = {"read()": lambda answer: len(answer.read()), "copyfileobj": copied, "lines": lambda answer: sum(map(len, answer)),
        "BufferedReader": lambda answer: len(io.BufferedReader(answer).read(100000))}
seen = {}
for name, way in ways.items():
    with urllib.request.urlopen(url) as answer:
        try:
            seen[name] = way(answer)
        except http.client.IncompleteRead as error:
            seen[name] = "IncompleteRead"
curl = subprocess.run(["curl", "-s", "-o", "/dev/null", url]).returncode
print(platform.python_version(), "100000 bytes announced, 5000 sent; curl exits with", curl)
print(seen)
sys.exit(not (curl == 18 and seen == {"read()": "IncompleteRead", "copyfileobj": 5000, "lines": 5000, "BufferedReader": 5000}))
P
