# Shows what is mounted on argv[1] on argv[2], too, with the user and group 0 as 100000 there. Ends with 77 if the kernel
# cannot do that for such a mount.
import ctypes, errno, os, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, AT_EMPTY_PATH, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_IDMAP = 1, 0x1000, 4, 0x100000


class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def call(*arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        error = ctypes.get_errno()
        print(os.strerror(error), file=sys.stderr)
        sys.exit(77 if error == errno.EINVAL else 1)
    return result


source, target = sys.argv[1:]
ends, begins = os.pipe()
holder = subprocess.Popen(["unshare", "--user", "sh", "-c", "echo; exec sleep 60"], stdout=begins)
os.read(ends, 1)
for ids in "uid_map", "gid_map":
    with open(f"/proc/{holder.pid}/{ids}", "w") as file:
        file.write("0 100000 1")
namespace = os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY)
tree = call(OPEN_TREE, -100, source.encode(), OPEN_TREE_CLONE)
try:
    attributes = Attributes(MOUNT_ATTR_IDMAP, 0, 0, namespace)
    call(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(attributes), ctypes.sizeof(attributes))
    call(MOVE_MOUNT, tree, b"", -100, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)
finally:
    holder.kill()
    holder.wait()
