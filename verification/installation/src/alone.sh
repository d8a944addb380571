# The static binary where there is nothing else but the kernel's devices and processes. Arguments: the binary, a folder.

binary=$1
cd "$2"
mkdir -p tree root/dev root/proc root/mnt
cp "$binary" root/verimount
mount --bind /dev root/dev
mount -t proc proc root/proc
head -c 3000000 /dev/urandom > tree/data
digest=$(root/verimount build tree root/app.img | cut -d" " -f1)
inside() { chroot root /verimount "$@"; }
inside doctor
inside verify /app.img --digest "$digest"
inside mount /app.img /mnt --digest "$digest"
cmp tree/data root/mnt/data
inside status /mnt
inside umount /mnt
# A server whose certificate nobody knows: this machine's own.
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out certificate.pem 2> /dev/null
mkdir served
cp root/app.img served
cat > nginx.conf << END
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:$3 ssl;
        ssl_certificate $2/certificate.pem;
        ssl_certificate_key $2/key.pem;
        root $2/served;
    }
}
END
nginx -p "$2" -c nginx.conf 2> /dev/null &
server=$!
trap 'kill $server' EXIT
until openssl s_client -connect "localhost:$3" < /dev/null > handshake 2>&1; do
    kill -0 $server
    sleep 0.1
done
mkdir -p root/etc
echo '127.0.0.1 localhost' > root/etc/hosts
url=https://localhost:$3/app.img
if env -u SSL_CERT_FILE -u SSL_CERT_DIR chroot root /verimount verify "$url" --digest "$digest" 2> said; then
    echo 'a server was believed that nobody knows'; exit 1
fi
cat said
grep -q 'those of Mozilla' said
cp certificate.pem root/authority.pem
inside verify "$url" --digest "$digest" --ca /authority.pem
# Those of the system, if it has any.
mkdir -p root/etc/ssl/certs
cp certificate.pem root/etc/ssl/certs/ca-certificates.crt
env -u SSL_CERT_FILE -u SSL_CERT_DIR chroot root /verimount verify "$url" --digest "$digest" 2> said
if grep -q Mozilla said; then
    echo 'the certificates of the system are not used'; exit 1
fi
