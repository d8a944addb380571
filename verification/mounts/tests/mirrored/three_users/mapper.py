"""Does what Rust cannot do without unsafe code, for one user: commands come from the socket on descriptor 0."""

import errno
import mmap
import os
import socket


def store(file, byte):
    try:
        with mmap.mmap(file, 1) as mapping:
            mapping[0] = byte
            mapping.flush()
    except OSError as error:
        return error.errno
    except ValueError:
        # The file is shorter.
        return errno.EINVAL
    return 0


def truncate(path, length):
    try:
        os.truncate(path, length)
    except OSError as error:
        return error.errno
    return 0


commands = socket.socket(fileno=0)
while True:
    command, files, _, _ = socket.recv_fds(commands, 4096, 1)
    if not command:
        break
    verb, number, path = command.split(b" ", 2)
    if verb == b"truncate":
        result = truncate(path, int(number))
    else:
        # A store can end the process that makes it.
        child = os.fork()
        if child == 0:
            os._exit(store(files[0], int(number)))
        result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if result < 0:
            result = errno.EFAULT
    for file in files:
        os.close(file)
    commands.send(b"%d" % result)
