#!/usr/bin/env bash
# Linux 6.18.44 (by its source since 6.16), overlayfs above FUSE, here squashfuse 0.1.105: a file that the overlay finds by a handle can
# be used once, and is ESTALE from then on.
# With index=on or xino=on, an overlay remembers by its handle which lower file an upper one comes from, and libfuse lets handles be
# opened by default; so one expects what is seen above the kernel's squashfs. But FUSE now compares an epoch that only what is found by
# name gets: what is found by a handle counts as outdated when the overlay comes by again, which makes ESTALE of that, without a request
# to the daemon, until the lower file has been looked up by its name.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root, to mount"; exit 1; }
t=$(mktemp -d); cd "$t"
trap 'umount -q merged lower memory || true; cd /; rm -rf "$t"' EXIT
apt-get -qq -o APT::Sandbox::User=root download squashfuse=0.1.105-1 libsquashfuse0=0.1.105-1 libfuse2=2.9.9-6+b1 squashfs-tools=1:4.5.1-1 liblzo2-2=2.10-2
for package in *.deb; do dpkg -x "$package" root; done
PATH=$t/root/usr/bin:$t/root/bin:$PATH; export LD_LIBRARY_PATH=$t/root/usr/lib/x86_64-linux-gnu:$t/root/lib/x86_64-linux-gnu
mkdir tree lower merged memory; echo text >tree/file
mksquashfs tree image -quiet -no-progress >/dev/null
mount -t tmpfs memory memory; mkdir memory/upper memory/work
squashfuse -o noforget image lower
show() { mount -t overlay overlay merged -o lowerdir=lower,upperdir=memory/upper,workdir=memory/work,index=on; }
show; mv merged/file merged/moved; umount merged
echo 2 >/proc/sys/vm/drop_caches; show
for time in first second third; do echo "$time: $(stat -c '%n %s' merged/moved 2>&1)"; done | tee seen
[ "$(uname -r | cut -d. -f1-2) $(grep -c 'moved 5' seen) $(grep -c 'Stale file handle' seen)" = "6.18 1 2" ]
