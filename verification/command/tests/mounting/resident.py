"""Maps and reads a file in eight processes while its mount's daemon is killed.

Arguments: the file, the original, the daemon's process.
"""
import mmap, os, signal, sys, time

path, original, daemon = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(original, "rb") as file:
    content = file.read()
began, is_killed = os.pipe(), os.pipe()


def work(number):
    file = os.open(path, os.O_RDONLY)
    mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    os.set_blocking(is_killed[0], False)
    os.close(is_killed[1])
    rounds_left = None
    while rounds_left != 0:
        if mapped[:] != content or os.pread(file, len(content), 0) != content:
            sys.exit("wrong bytes")
        if rounds_left is None:
            os.write(began[1], bytes([number]))
            try:
                os.read(is_killed[0], 1)
                rounds_left = 3
            except BlockingIOError:
                pass
        else:
            rounds_left -= 1


children = []
for number in range(8):
    child = os.fork()
    if child == 0:
        work(number)
        os._exit(0)
    children.append(child)
at_work = set()
while len(at_work) < 8:
    at_work.update(os.read(began[0], 64))
os.kill(daemon, signal.SIGKILL)
while True:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        break
os.close(is_killed[1])
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
