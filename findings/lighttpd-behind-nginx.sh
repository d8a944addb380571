#!/usr/bin/env bash
# lighttpd 1.4.69 behind nginx 1.22.1: no ranges, though both support them.
# lighttpd ignores Range in requests of HTTP/1.0, and nginx's proxy_pass speaks 1.0 unless it is told otherwise. nginx passes the
# header on and does not cut what it passes through. So one expects 206 and gets 200 with everything; "proxy_http_version 1.1" cures
# it.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'kill $(jobs -p) 2>/dev/null || true; wait; cd /; rm -rf "$t"' EXIT
apt-get -qq -o APT::Sandbox::User=root download lighttpd=1.4.69-1 nginx=1.22.1-9+deb12u11 libnettle8=3.8.1-2 libxxhash0=0.8.1-1
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$t/root/usr/lib/x86_64-linux-gnu
read -r origin old new < <(python3 -c '
import socket
s = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in s))')
mkdir www; printf '0123456789' >www/f
printf 'server.document-root = "%s"\nserver.bind = "127.0.0.1"\nserver.port = %s\n' "$t/www" "$origin" >lighttpd.conf
cat >nginx.conf <<N
daemon off; pid $t/pid; worker_processes 1; $([ "$(id -u)" != 0 ] || echo 'user root;')
events {}
http {
  access_log off; client_body_temp_path $t/1; proxy_temp_path $t/2; fastcgi_temp_path $t/3; uwsgi_temp_path $t/4; scgi_temp_path $t/5;
  server { listen 127.0.0.1:$old; location / { proxy_pass http://127.0.0.1:$origin; } }
  server { listen 127.0.0.1:$new; location / { proxy_pass http://127.0.0.1:$origin; proxy_http_version 1.1; } }
}
N
root/usr/sbin/lighttpd -D -f lighttpd.conf -m root/usr/lib/lighttpd 2>/dev/null &
root/usr/sbin/nginx -p "$t" -e stderr -c "$t/nginx.conf" 2>/dev/null &
curl -sf --retry 20 --retry-delay 1 --retry-connrefused -o /dev/null "http://127.0.0.1:$new/f"
get() { curl -s "$@" -r 2-4 -w ' %{http_code}'; }
{ echo "lighttpd 1.1: $(get "http://127.0.0.1:$origin/f")"; echo "lighttpd 1.0: $(get -0 "http://127.0.0.1:$origin/f")"
  echo "through nginx: $(get "http://127.0.0.1:$old/f")"; echo "with proxy_http_version 1.1: $(get "http://127.0.0.1:$new/f")"; } | tee seen
[ "$(sed 's/.*: //' seen | tr '\n' ,)" = '234 206,0123456789 200,0123456789 200,234 206,' ]
