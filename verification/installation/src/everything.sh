# Lists all files, but for what is kept of packages and the log.

find / -xdev \( -path /given -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) -prune -o -print |
    sort
