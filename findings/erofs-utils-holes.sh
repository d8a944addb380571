#!/usr/bin/env bash
# erofs-utils 1.8.6 (Debian 13): fsck.erofs --extract makes files that end with a hole too short, with exit code 0.
# Extracting is meant to give back what mkfs.erofs packed, and a hole is so many zeros. Of a file in chunks (--chunksize), 1.8.6
# loses what is behind the last data; one that is all hole comes out empty. A hole in front of data is kept. The image is right:
# dump.erofs of the same version shows the size.
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
mkdir s; truncate -s 1M s/hole s/end s/middle
head -c 4096 /usr/bin/env | tee s/end.tmp >/dev/null
dd if=s/end.tmp of=s/end conv=notrunc status=none; dd if=s/end.tmp of=s/middle bs=4096 seek=255 conv=notrunc status=none; rm s/end.tmp
run mkfs.erofs --quiet --chunksize=4096 image s >/dev/null
status=0; run fsck.erofs --extract=x image >/dev/null 2>&1 || status=$?
for file in hole end middle; do
  echo "$file: $(stat -c %s s/$file) bytes, in the image $(run dump.erofs --path=/$file image | sed -n 's/.*[Ss]ize: \([0-9]*\).*/\1/p' | head -1), extracted $(stat -c %s x/$file)"
done | tee seen; echo "exit code $status"
[ "$(sed 's/.*image //; s/extracted //' seen | tr '\n' ';')$status" = '1048576, 0;1048576, 4096;1048576, 1048576;0' ]
