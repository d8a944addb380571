"""Lists everything in a tree, the argument, with all that a container sees of it."""

import hashlib
import os
import stat
import sys

top = os.fsencode(sys.argv[1])
names = {}


def content(path, status):
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return b""
    # Other names of the same file are listed under the first one.
    if status.st_nlink > 1:
        first = names.setdefault((status.st_dev, status.st_ino), path)
        if first != path:
            return b"as " + first[len(top):]
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest().encode()


def attributes(path):
    found = {}
    for name in os.listxattr(path, follow_symlinks=False):
        # How layers mark what they hide is not seen in a container.
        if ".overlay." not in name:
            found[name] = os.getxattr(path, name, follow_symlinks=False)
    return sorted(found.items())


def show(path):
    status = os.lstat(path)
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    print(
        path[len(top):],
        oct(status.st_mode),
        f"{status.st_uid}:{status.st_gid}",
        size,
        int(status.st_mtime),
        content(path, status),
        attributes(path),
    )


# Not the root itself: archives of layers do not have it.
for folder, folders, files in os.walk(top):
    folders.sort()
    for name in sorted(folders + files):
        show(os.path.join(folder, name))
