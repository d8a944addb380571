#!/usr/bin/env bash
# tornado 6.6.1, StaticFileHandler: the ETag is a hash of the content, so one expects it to change with the content. It is computed
# once for each path and kept until the process ends: after the file was replaced, the new content is sent under the old ETag, and a
# client that has the old content is told 304, though Last-Modified shows the new time. If-Range is not read at all, so a range with
# any ETag gets 206. (The setting static_hash_cache=False computes the hash each time.)
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
python3 -m venv v; v/bin/pip -q install --disable-pip-version-check tornado==6.6.1
mkdir www; printf 'old, old' >www/f; touch -d @1600000000 www/f
cat >try.py <<'P'
import asyncio, http.client, sys
from tornado import httpserver, netutil, web

async def main():
    sockets = netutil.bind_sockets(0, "127.0.0.1")
    app = web.Application([("/(.*)", web.StaticFileHandler, {"path": "www"})], log_function=lambda handler: None)
    httpserver.HTTPServer(app).add_sockets(sockets)

    def get(headers):
        connection = http.client.HTTPConnection(*sockets[0].getsockname())
        connection.request("GET", "/f", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("ETag"), answer.getheader("Last-Modified"), answer.read()

    async def ask(**headers):
        return await asyncio.to_thread(get, {name.replace("_", "-"): value for name, value in headers.items()})

    old = await ask()
    with open("www/f", "wb") as file:
        file.write(b"new, and longer")
    new = await ask()
    again = await ask(If_None_Match=old[1])
    resumed = await ask(Range="bytes=3-6", If_Range='"another"')
    print("old:", *old[1:], "new:", *new[1:])
    print("a client with the old content:", again[0], "  If-Range with another ETag:", resumed[0], resumed[3])
    return (new[1], new[3], again[0], resumed[0]) == (old[1], b"new, and longer", 304, 206) and new[2] != old[2]

sys.exit(not asyncio.run(main()))
P
v/bin/python try.py
