# Lists what podman shows of the image $4 of the registry $3, whose layers it takes from the store of layers $2. $1 is the command;
# the store is mounted on $5, which is the additional layer store of $CONTAINERS_STORAGE_CONF.
set -eu
"$1" mount --quiet --unpinned "$2" "$5" --suid > /dev/null 2>&1
image="$3/$4"
# Each layer is a warning, as nothing can be removed from the store.
podman pull --quiet --tls-verify=false "$image" > /dev/null 2> "$HOME/pull.log" || { cat "$HOME/pull.log" >&2; exit 1; }
root=$(podman image mount "$image")
python3 "$LIST" "$root"
podman image umount "$image" > /dev/null
# How many layers are not in podman's own storage.
find "$(podman info --format '{{.Store.GraphRoot}}')/overlay" -name additionallayer | wc -l >&2
podman image rm --force "$image" > /dev/null 2>&1
umount "$5"
