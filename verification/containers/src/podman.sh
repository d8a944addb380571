# Lists what podman shows of the image in the archive $1.
set -eu
image=$(podman pull --quiet "oci-archive:$1")
root=$(podman image mount "$image")
python3 "$LIST" "$root"
podman image umount "$image" > /dev/null
podman image rm "$image" > /dev/null
