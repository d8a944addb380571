# Makes an image of three layers, the lowermost of which is the Debian in the folder $1; writes it to the archive $2.
set -eu
container=$(buildah from scratch)
layer() {
    root=$(buildah mount "$container")
    "$@"
    buildah umount "$container" > /dev/null
    buildah commit --quiet --rm "$container" debian > /dev/null
    container=$(buildah from debian)
}
system() { cp -a "$debian/." "$root"; }
program() { mkdir "$root/srv/app"; echo 'print "it runs\n"' > "$root/srv/app/main.pl"; }
settings() { echo app > "$root/etc/hostname"; }
debian=$1
layer system
layer program
layer settings
buildah push --quiet debian "oci-archive:$2:latest"
