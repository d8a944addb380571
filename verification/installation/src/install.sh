# Installs the package, with what it recommends, and looks at what is there.

apt-get -qq update
# What another package brings would stay when ours is removed.
apt-get -qq install --yes --no-install-recommends fuse3 ca-certificates > /dev/null
sh /given/everything.sh > /given/before
apt-get -qq install --yes --no-install-recommends /given/verimount.deb > /dev/null
verimount --version
# What a minimal Debian lacks, and what mends it, the program itself says.
verimount doctor
cure=$(verimount doctor | sed -n 's/.*mend: \(.*mtab\)$/\1/p')
test -n "$cure"
eval "$cure"
test "$(readlink -f /sbin/mount.fuse.verimount)" = /usr/bin/verimount
for file in \
    /usr/share/man/man1/verimount-mount.1.gz \
    /usr/share/bash-completion/completions/verimount \
    /usr/lib/systemd/system/verimount@.service \
    /usr/share/doc/verimount/copyright
do
    test -s $file || { echo "$file is missing or empty"; exit 1; }
done
