# Mounts images, the lowermost layer first, and an overlay with the options $2 above them, and lists that. $1 is the
# command; mount points are made in $3; each further argument is an image.
set -eu
verimount=$1
options=$2
points=$3
shift 3
mkdir -p "$points/root"
layers=
number=0
for image in "$@"; do
    number=$((number + 1))
    mkdir -p "$points/$number"
    "$verimount" mount --quiet --unpinned "$image" "$points/$number" --suid > /dev/null
    layers="$points/$number${layers:+:$layers}"
done
mount -t overlay -o "ro,$options""lowerdir=$layers" overlay "$points/root"
python3 "$LIST" "$points/root"
umount "$points/root"
while [ "$number" -gt 0 ]; do
    umount "$points/$number"
    number=$((number - 1))
done
