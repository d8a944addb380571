#!/usr/bin/env bash
# Linux 6.18.44: a FUSE file system that asks for FUSE_ALLOW_IDMAP, and whose mount lacks the option default_permissions, is mounted, and then
# each call in it fails with ECONNREFUSED.
# The kernel offers the flag to every mount, and a daemon that takes what it is offered expects that what does not fit is left out, as with other
# flags. But the kernel takes this one for an error of the whole negotiation when it comes back, and tells nobody: the mount call has
# succeeded before, the daemon's answer was written without an error, and no further request comes.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root, to mount"; exit 1; }
t=$(mktemp -d); cd "$t"
trap 'umount -q mnt || true; cd /; rm -rf "$t"' EXIT
mkdir mnt
cat >daemon.py <<'PYTHON'
import ctypes, os, struct, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0" + sys.argv[1]
assert libc.mount(b"finding", b"mnt", b"fuse", 0, options.encode()) == 0, os.strerror(ctypes.get_errno())
IDMAP, EXTENDED = 1 << 40, 1 << 30
after_init = 0

def serve():
    global after_init
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _, opcode, unique = struct.unpack_from("IIQ", request)
        answer, error = b"", 0
        if opcode == 26:
            offered = struct.unpack_from("I", request, 52)[0] | struct.unpack_from("I", request, 56)[0] << 32
            assert offered & IDMAP
            flags = (IDMAP if sys.argv[2] == "idmap" else 0) | EXTENDED
            answer = struct.pack("IIIIHHIIHHI28x", 7, 38, 4096, flags & 0xFFFFFFFF, 16, 12, 4096, 1, 1, 0, flags >> 32)
        else:
            after_init += 1
            if opcode == 3:
                attr = struct.pack("QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
                answer = struct.pack("QII", 0, 0, 0) + attr
            elif opcode in (2, 42):
                continue
            else:
                error = -38
        os.write(device, struct.pack("IiQ", 16 + len(answer), error, unique) + answer)

threading.Thread(target=serve, daemon=True).start()
try:
    os.stat("mnt")
    result = "works"
except OSError as error:
    result = os.strerror(error.errno)
print(f"options '{sys.argv[1]}', {sys.argv[2]}: {result}; requests after INIT: {after_init}")
libc.umount2(b"mnt", 2)
PYTHON
for case in "" ,default_permissions; do python3 daemon.py "$case" idmap; done | tee seen; python3 daemon.py "" plain | tee -a seen
[ "$(uname -r | cut -d. -f1-2)" = 6.18 ]
[ "$(grep -c 'Connection refused; requests after INIT: 0' seen) $(grep -c works seen)" = "1 2" ]
