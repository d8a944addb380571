#!/usr/bin/env bash
# CPython 3.11.7, tarfile (format pax, its default): times that are not those of the file.
# A pax record can hold any number of decimals, and GNU tar and bsdtar restore nanoseconds, so one expects tarfile to keep them. It
# takes os.stat's float, which is exact to some 200 ns today, and writes str() of it: after unpacking, what compares times finds
# every file changed. In the first 0.1 ms of 1970 str() has an exponent. "5e-06" is no number in pax, and one expects it to be
# refused; GNU tar 1.34 and bsdtar 3.6.2 read what is in front of the "e", and make five seconds of five microseconds, without a
# word.
set -euo pipefail
t=$(mktemp -d); cd "$t"; trap 'cd /; rm -rf "$t"' EXIT
apt-get -qq -o APT::Sandbox::User=root download tar=1.34+dfsg-1.2+deb12u1 libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5
for package in *.deb; do dpkg -x "$package" root; done
PATH=$t/root/bin:$t/root/usr/bin:$PATH; export LD_LIBRARY_PATH=$t/root/usr/lib/x86_64-linux-gnu
touch -d @1790000000.123456789 now; touch -d @0.000005 then
mkdir gnu bsd
for name in now then; do
  python3 -c 'import sys, tarfile
with tarfile.open(sys.argv[1] + ".tar", "w") as archive: archive.add(sys.argv[1])' $name
  status=0; tar -C gnu -xf $name.tar 2>said || status=$?; bsdtar -C bsd -xf $name.tar
  echo "$(stat -c %.9Y $name) is $(grep -ao 'mtime=[-0-9.e]*' $name.tar), by bsdtar $(stat -c %.9Y bsd/$name), by GNU tar exit $status $(stat -c %.9Y gnu/$name 2>/dev/null) $(head -1 said)"
done | tee seen
[ "$(tail -n 2 seen)" = "1790000000.123456789 is mtime=1790000000.1234567, by bsdtar 1790000000.123456700, by GNU tar exit 0 1790000000.123456700 
0.000005000 is mtime=5e-06, by bsdtar 5.000000000, by GNU tar exit 0 5.000000000 " ]
