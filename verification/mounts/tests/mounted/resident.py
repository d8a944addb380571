"""Opens, maps, reads and closes random files in several processes, and compares them with the originals.

Arguments: the mount, the originals, the number of processes, the seconds. Every process keeps some mappings of files that it
has closed, and compares them again later.
"""
import mmap, os, random, sys, time

mount, originals, processes, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
names = sorted(os.listdir(originals))


def content(name):
    with open(os.path.join(originals, name), "rb") as file:
        return file.read()


def work(number):
    random.seed(number)
    end = time.monotonic() + seconds
    kept, opened = [], 0
    while time.monotonic() < end:
        name = random.choice(names)
        file = os.open(os.path.join(mount, name), os.O_RDONLY)
        opened += 1
        size = os.fstat(file).st_size
        if random.random() < 0.3:
            at = random.randrange(size + 1)
            part = os.pread(file, 100_000, at)
            if part != content(name)[at:at + 100_000]:
                sys.exit(f"{name}: wrong bytes read at {at}")
        if size > 0 and random.random() < 0.7:
            kept.append((name, mmap.mmap(file, 0, prot=mmap.PROT_READ)))
        os.close(file)
        if len(kept) > 4:
            name, mapped = kept.pop(random.randrange(len(kept)))
            if mapped[:] != content(name):
                sys.exit(f"{name}: wrong bytes mapped")
            mapped.close()
    for name, mapped in kept:
        if mapped[:] != content(name):
            sys.exit(f"{name}: wrong bytes mapped")
    print(opened)


children = []
for number in range(processes):
    child = os.fork()
    if child == 0:
        work(number)
        sys.stdout.flush()
        os._exit(0)
    children.append(child)
failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
sys.exit(failed)
