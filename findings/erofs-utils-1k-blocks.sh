#!/usr/bin/env bash
# erofs-utils 1.8.6 (Debian 13): fsck.erofs and dump.erofs refuse what mkfs.erofs of the same package makes with blocks of 1024
# bytes.
# mkfs.erofs -b1024 succeeds, and the kernel mounts the image (seen with Linux 6.18). Images with blocks of 512, 2048 and 4096 bytes
# are accepted, so one expects 1024, too. Whether the superblock, which begins at byte 1024, fits into its block is decided by the
# block size less 1024: that is 0 here, and "invalid sb_extslots 0 (more than a fs block)". For 512 it is negative, which counts as
# a large number.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
mkdir -p lists/partial cache/archives/partial root
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | head -1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >sources.list
{ printf 'Dir::Etc::sourcelist "%s/sources.list";\nDir::Etc::sourceparts "-";\nAPT::Sandbox::User "root";\n' "$t"
  printf 'Dir::State::lists "%s/lists";\nDir::Cache "%s/cache";\nDir::State::status "/dev/null";\n' "$t" "$t"; } >apt.conf
export APT_CONFIG=$t/apt.conf
apt-get -qq update; apt-get -qq -y --no-install-recommends -d install erofs-utils=1.8.6-1 >/dev/null 2>&1
for package in cache/archives/*.deb; do dpkg-deb -x "$package" root; done
run() { local program=$1; shift; root/usr/lib64/ld-linux-x86-64.so.2 --library-path root/usr/lib/x86_64-linux-gnu "root/usr/bin/$program" "$@"; }
mkdir s; echo hello >s/f
for size in 512 1024 2048 4096; do
  run mkfs.erofs --quiet -b$size image s; status=0; run fsck.erofs image >said 2>&1 || status=$?
  dumped=0; run dump.erofs --path=/f image >/dev/null 2>&1 || dumped=$?
  echo "blocks of $size bytes: fsck.erofs $status, dump.erofs $dumped $(sed -n 's/^<E> //p' said | head -1)"; rm image
done | tee seen
[ "$(sed 's/.*fsck.erofs //; s/dump.erofs //' seen | tr '\n' ';')" = '0, 0 ;1, 234 erofs: invalid sb_extslots 0 (more than a fs block);0, 0 ;0, 0 ;' ]
