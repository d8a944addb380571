# An automounter: mounts by a command when somebody looks at a directory. It does one thing at a time, and says so on
# standard output; standard input tells it to let the mount expire, and then to unmount it. When that ends, it ends.
#
# automounter.py DIRECTORY COMMAND...
import errno, fcntl, os, signal, struct, subprocess, sys, threading, time

# Numbers of linux/auto_fs.h.
READY, FAIL, CATATONIC, EXPIRE_MULTI = 0x9360, 0x9361, 0x9362, 0x40049366
MISSING_DIRECT, EXPIRE_DIRECT, IMMEDIATE = 5, 6, 1

directory, command = sys.argv[1], sys.argv[2:]
requests, to_requests = os.pipe2(os.O_DIRECT)
options = f"fd={to_requests},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
subprocess.run(
    ["mount", "-i", "-t", "autofs", "-o", options, "automounter", directory], pass_fds=[to_requests], check=True
)
os.close(to_requests)
root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)


def say(text):
    print(text, flush=True)


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode


def answer(token, code):
    fcntl.ioctl(root, READY if code == 0 else FAIL, token)


def expire():
    # Whoever has just used the mount may still be on the way out.
    while True:
        try:
            return fcntl.ioctl(root, EXPIRE_MULTI, struct.pack("i", IMMEDIATE))
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            time.sleep(0.001)


def serve(packet):
    kind, token = struct.unpack_from("=4xiI", packet)
    if kind == MISSING_DIRECT:
        say("mounting")
        code = run(command)
        say(f"mounted {code}")
        answer(token, code)
    elif kind == EXPIRE_DIRECT:
        say("expiring")
        if sys.stdin.readline() != "umount\n":
            end()
        code = run(["umount", directory])
        say(f"unmounted {code}")
        answer(token, code)


def obey():
    while sys.stdin.readline() == "expire\n":
        expire()
    end()


def end():
    # Nobody waits for an answer any longer.
    fcntl.ioctl(root, CATATONIC, 0)
    os.killpg(0, signal.SIGKILL)


say("ready")
obeying = threading.Thread(target=obey)
obeying.start()
# More than the longest request, which arrives as a whole.
while packet := os.read(requests, 4096):
    serve(packet)
obeying.join()
