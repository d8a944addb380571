# Runs a program of the image $2 for the first time, and prints how many bytes arrived and how many seconds it took. With $3, its
# layers are in the store at that address, which is mounted on $4. $1 is the command.
set -eu
received() { sed -n 's/^ *lo: *\([0-9]*\) .*/\1/p' /proc/net/dev; }
before=$(received)
start=$(date +%s.%N)
if [ $# -gt 2 ]; then
    "$1" mount --quiet "$3" "$4" --cache "$HOME/cache" --suid > /dev/null 2>&1
fi
podman pull --quiet --tls-verify=false "$2" > /dev/null 2> "$HOME/pull.log" || { cat "$HOME/pull.log" >&2; exit 1; }
# What a container needs of the machine's namespaces is not what is measured.
said=$(podman run --rm --network none --cgroups disabled --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --runtime crun "$2" perl /srv/app/main.pl 2> "$HOME/run.log") ||
    { cat "$HOME/run.log" >&2; exit 1; }
test "$said" = 'it runs'
end=$(date +%s.%N)
echo "$(($(received) - before)) $(echo "$end $start" | awk '{ print $1 - $2 }')"
podman image rm --force "$2" > /dev/null 2>&1
if [ $# -gt 2 ]; then umount "$4"; fi
