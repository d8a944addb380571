# Installs the Python package, where there is neither Rust nor a compiler.

apt-get -qq install --yes --no-install-recommends python3-venv > /dev/null
python3 -m venv /srv/venv
/srv/venv/bin/pip --quiet install --no-index --find-links /given verimount
/srv/venv/bin/verimount --version
test -s /srv/venv/lib/python3*/site-packages/verimount-*.dist-info/licenses/LICENSE-LIBRARIES
# fusermount3 needs it; what a minimal Debian lacks, the program itself says.
/srv/venv/bin/verimount doctor | grep -q mtab
ln -s /proc/self/mounts /etc/mtab
