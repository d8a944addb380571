#!/usr/bin/env bash
# sirv 3.0.2 (npm; vite preview serves its files with it): two ranges get 206 with other bytes than were asked for.
# "bytes=-3", the last three bytes, gets the first four: the missing start is taken for 0 and the length for an end. "bytes=0-0",
# the one byte with which clients ask whether there are ranges, gets all of the file: an end of 0 counts as none. Content-Range says
# what is sent, so a client notices only if it compares it with what it asked for; one expects a server that does not know a kind of
# range to answer 200. If-Range is not read: with another file's ETag it is 206, too.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
npm install --silent --no-audit --no-fund --prefix "$t" sirv@3.0.2 >/dev/null
mkdir www; printf '0123456789' >www/f.bin
cat >try.mjs <<'J'
import http from 'node:http';
import sirv from 'sirv';

const server = http.createServer(sirv('www', { etag: true }));
const ask = headers => new Promise((done, fail) => {
  http.get({ port: server.address().port, host: '127.0.0.1', path: '/f.bin', headers, agent: false }, answer => {
    let body = '';
    answer.on('data', piece => body += piece).on('end', () => done(`${answer.statusCode} ${answer.headers['content-range']} ${body}`));
  }).on('error', fail);
});
server.listen(0, '127.0.0.1', async () => {
  const seen = [];
  for (const headers of [{ Range: 'bytes=2-4' }, { Range: 'bytes=-3' }, { Range: 'bytes=0-0' }, { Range: 'bytes=2-4', 'If-Range': '"another"' }]) {
    seen.push(await ask(headers));
    console.log(headers, '->', seen.at(-1));
  }
  server.close();
  const right = ['206 bytes 2-4/10 234', '206 bytes 0-3/10 0123', '206 bytes 0-9/10 0123456789', '206 bytes 2-4/10 234'];
  process.exitCode = seen.every((line, at) => line === right[at]) ? 0 : 1;
});
J
node try.mjs
