#!/usr/bin/env bash
# GNU tar 1.34 and bsdtar 3.6.2 (libarchive) write different modes for a file with a POSIX ACL.
# On Linux the group bits of such a file's mode are the ACL's mask, so stat says 660 for group::--- with mask::rw-. One expects both
# to archive what stat says. GNU tar does; bsdtar writes the owning group's own rights, 600, with the same ACL beside it. Unpacked
# with ACLs both give 660 and the same ACL. Unpacked without (no --acls, Python, Go, a file system without them), GNU tar's archive
# lets the owning group read and write what it could not, bsdtar's does not. A reader that takes mode and ACL as they are gets a
# mask of --- from bsdtar's.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
apt-get -qq -o APT::Sandbox::User=root download tar=1.34+dfsg-1.2+deb12u1 libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5 acl=2.3.1-3
for package in *.deb; do dpkg -x "$package" root; done
PATH=$t/root/bin:$t/root/usr/bin:$PATH; export LD_LIBRARY_PATH=$t/root/usr/lib/x86_64-linux-gnu
umask 022; echo secret >f; chmod 600 f; setfacl -m u:1234:rw f
tar --acls --format=posix -cf gnu.tar f; bsdtar --acls --format=pax -cf bsd.tar f
header() { python3 -c 'import sys, tarfile; print(oct(tarfile.open(sys.argv[1]).next().mode)[2:])' "$1"; }
unpack() { mkdir x; tar -p "$1" -C x -xf "$2"; stat -c %a x/f; getfacl -cnE x/f | tr '\n' ' '; rm -r x; }
echo "$(stat -c %a f) $(getfacl -cnE f | tr '\n' ' ')"
for archive in gnu bsd; do
  printf '%s: header %s, unpacked %s with, %s without ACLs\n' "$archive" "$(header $archive.tar)" "$(unpack --acls $archive.tar | tr '\n' ' ')" "$(unpack --no-acls $archive.tar | head -1)"
done | tee seen
acl='user::rw- user:1234:rw- group::--- mask::rw- other::---'
[ "$(tr -s ' ' <seen)" = "gnu: header 660, unpacked 660 $acl with, 660 without ACLs
bsd: header 600, unpacked 660 $acl with, 600 without ACLs" ]
