#!/usr/bin/env bash
# bsdtar 3.6.2 (libarchive) and GNU tar 1.34: extended attributes with "%" or "=" in their names multiply.
# A pax record's name ends at its first "=", so both write %25 and %3D into the record SCHILY.xattr.NAME. One expects whoever
# escapes to undo it. GNU tar does, for archives of both. bsdtar does not for this record, though it wrote it so itself; it does for
# the record of its own that it adds (LIBARCHIVE.xattr.NAME), and restores the attributes of both. So from its own archives each
# such attribute comes back twice, under two names, and after the next round in three; from those of GNU tar it comes back under the
# wrong name. No message.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
apt-get -qq -o APT::Sandbox::User=root download tar=1.34+dfsg-1.2+deb12u1 libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5 attr=1:2.5.1-4
for package in *.deb; do dpkg -x "$package" root; done
PATH=$t/root/bin:$t/root/usr/bin:$PATH; export LD_LIBRARY_PATH=$t/root/usr/lib/x86_64-linux-gnu
mkdir gnu bsd again other gnu-of-bsd
touch f; setfattr -n user.50% -v 1 f
tar --xattrs --format=posix -cf gnu.tar f; bsdtar --xattrs --format=pax -cf bsd.tar f
tar --xattrs -C gnu -xf gnu.tar; tar --xattrs -C gnu-of-bsd -xf bsd.tar 2>/dev/null
bsdtar --xattrs -C other -xf gnu.tar; bsdtar --xattrs -C bsd -xf bsd.tar
bsdtar --xattrs --format=pax -C bsd -cf again.tar f; bsdtar --xattrs -C again -xf again.tar
names() { getfattr "$1" | sed -n 's/^user/user/p' | sort | tr '\n' ' '; }
{ echo "the file: $(names f)"
  echo "GNU tar of GNU tar: $(names gnu/f)"; echo "GNU tar of bsdtar: $(names gnu-of-bsd/f)"; echo "bsdtar of GNU tar: $(names other/f)"
  echo "bsdtar of bsdtar: $(names bsd/f)"; echo "once more: $(names again/f)"; } | tee seen
[ "$(sed 's/.*: //; s/ $//' seen | tr '\n' ,)" = 'user.50%,user.50%,user.50%,user.50%25,user.50% user.50%25,user.50% user.50%25 user.50%2525,' ]
