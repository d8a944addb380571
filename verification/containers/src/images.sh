# Makes image number $1 of the given kind, of at least three layers, with the functions below; writes it to the archive $2.
# Each layer is made from the one below by changing files in a mounted container.
set -eu
kind=$1
archive=$2

container=$(buildah from scratch)
layer() {
    root=$(buildah mount "$container")
    (cd "$root" && "$@")
    buildah umount "$container" > /dev/null
    buildah commit --quiet --rm "$container" made > /dev/null
    container=$(buildah from made)
}

base() {
    mkdir -p etc lib/deep/deeper tmp
    chmod 1777 tmp
    echo base > etc/name
    echo lower > lib/lower
    echo deep > lib/deep/file
    echo deeper > lib/deep/deeper/file
    ln -s ../etc/name lib/link
    ln lib/lower lib/other-name
}
more() { echo more > etc/more; }

# A directory that is removed and made again hides what was in it.
made_again() { rm -r lib; mkdir lib; echo new > lib/new; }
made_again_below() { rm -r lib/deep; mkdir -p lib/deep/deeper; echo new > lib/deep/deeper/new; }
emptied() { rm -r lib; mkdir lib; }
removed() { rm lib/lower; rm -r lib/deep; }
refilled() { mkdir -p lib/deep; echo back > lib/deep/file; echo back > lib/lower; }

file_to_directory() { rm lib/lower; mkdir lib/lower; echo in > lib/lower/in; }
directory_to_file() { rm -r lib/deep; echo file > lib/deep; }
link_to_directory() { rm lib/link; mkdir lib/link; echo in > lib/link/in; }
directory_to_link() { rm -r lib/link; ln -s deep lib/link; }

linked_below() { ln lib/lower lib/third-name; ln lib/deep/file etc/file; }
one_name_changed() { cp lib/lower lib/copy; mv lib/copy lib/other-name; }
one_name_removed() { rm lib/third-name; }

with_attributes() {
    setfattr -n user.note -v text lib/lower
    cp /bin/true lib/program
    setcap cap_net_bind_service+ep lib/program
}
without_attributes() { setfattr -x user.note lib/lower; setcap -r lib/program; }

owned() { chown 33:44 lib/lower; chown -R 1000:1000 lib/deep; chmod 4751 etc/name; chmod 2770 lib; }
owned_otherwise() { chown 44:33 lib/lower; chmod 600 etc/name; chmod 700 lib/deep/deeper; }
other_modes() { chmod 700 lib etc; }
only_modes() { chmod 711 lib; chmod 400 lib/deep/file; }

odd_names() {
    mkdir 'with space' "$(printf 'new\nline')" 'größe'
    echo a > 'with space/-rf'
    echo b > "$(printf 'new\nline/tab\there')"
    echo c > "größe/$(printf '%0251d' 0)"
    echo d > '.wh' ; echo e > 'wh.file'
}
odd_names_changed() { rm -r "$(printf 'new\nline')"; rm 'with space/-rf'; rm "größe/$(printf '%0251d' 0)"; }

many() { for number in $(seq 300); do mkdir -p "many/$((number % 7))"; echo "$number" > "many/$((number % 7))/$number"; done; }
many_changed() { rm many/*/*3; for file in many/*/*5; do echo changed > "$file"; done; rm -r many/0; mkdir many/0; }

layer base
case $kind in
    0) layer made_again; layer more ;;
    1) layer more; layer made_again_below; layer made_again ;;
    2) layer removed; layer refilled; layer emptied ;;
    3) layer file_to_directory; layer directory_to_file; layer link_to_directory; layer directory_to_link ;;
    4) layer linked_below; layer one_name_changed; layer one_name_removed ;;
    5) layer with_attributes; layer more; layer without_attributes ;;
    6) layer owned; layer owned_otherwise; layer made_again_below ;;
    7) layer only_modes; layer more; layer only_modes ;;
    8) layer odd_names; layer odd_names_changed; layer made_again ;;
    10) layer other_modes; layer more; layer only_modes ;;
    9) layer many; layer many_changed; layer emptied; layer made_again ;;
esac
buildah push --quiet made "oci-archive:$archive:latest"
