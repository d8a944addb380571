#!/usr/bin/env bash
# docker-registry 2.8.2 of Debian 12 (distribution, built with Go 1.19): refusals announce the blob and do not send it.
# The answers 412 (If-Match of another ETag) and 416 (a range behind the end) have the Content-Length of the whole blob, and a body
# of 0 and of 33 bytes; then the connection is closed. One expects a status and a short text, or nothing: a client that reads the
# body reports a transfer that broke off (curl: 18), which looks like the network and is tried again, instead of a refusal that
# stays one.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'kill $(jobs -p) 2>/dev/null || true; cd /; rm -rf "$t"' EXIT
apt-get -qq -o APT::Sandbox::User=root download docker-registry=2.8.2+ds1-1; dpkg -x docker-registry_*.deb root
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$t/data" "$port" >config.yml
root/usr/bin/docker-registry serve config.yml >log 2>&1 &
registry=http://127.0.0.1:$port/v2
curl -sf --retry 20 --retry-delay 1 --retry-connrefused -o /dev/null "$registry/"
head -c 100000 /dev/zero >blob; digest=sha256:$(sha256sum blob | cut -d' ' -f1)
place=$(curl -sf -D - -o /dev/null -X POST "$registry/a/blobs/uploads/" | tr -d '\r' | sed -n 's/^[Ll]ocation: //p')
curl -sf -X PUT -H 'Content-Type: application/octet-stream' --data-binary @blob "$place&digest=$digest"
for header in 'If-Match: "another"' 'Range: bytes=200000-' 'Range: bytes=5-9'; do
  status=0; curl -s -m 20 -H "$header" -D head -o body "$registry/a/blobs/$digest" || status=$?
  echo "$header: $(sed -n '1s/HTTP[^ ]* \([0-9]*\).*/\1/p' head) $(grep -i '^content-length' head | tr -d '\r'), $(stat -c %s body 2>/dev/null || echo 0) sent, curl's exit code $status"; rm -f body
done | tee seen
[ "$(sed 's/.*: \([0-9]* Content\)/\1/' seen | tr '\n' ';')" = "412 Content-Length: 100000, 0 sent, curl's exit code 18;416 Content-Length: 100000, 33 sent, curl's exit code 18;206 Content-Length: 5, 5 sent, curl's exit code 0;" ]
