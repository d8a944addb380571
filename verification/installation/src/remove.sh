# Removes the package. Nothing of it may be left.

everything() {
    find / -xdev \( -path /given -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) -prune -o -print |
        sort
}

# This was not the package's.
rm /etc/mtab
apt-get -qq purge --yes verimount > /dev/null
everything > /given/after
diff /given/before /given/after
