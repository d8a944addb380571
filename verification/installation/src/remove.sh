# Removes the package. Nothing of it may be left.

# This was not the package's.
rm /etc/mtab
apt-get -qq purge --yes verimount > /dev/null
sh /given/everything.sh > /given/after
diff /given/before /given/after
