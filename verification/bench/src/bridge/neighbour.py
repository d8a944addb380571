"""A user who works in a folder, the argument. Says the seconds that 99 of 100 rounds do not exceed."""

import os
import sys
import time

USER = 61_001
ROUNDS = 300
PAUSE = 0.005

folder = sys.argv[1]
os.setgroups([])
os.setresgid(USER, USER, USER)
os.setresuid(USER, USER, USER)
with open(f"{folder}/file", "wb") as file:
    file.write(b"v" * 4096)


def work():
    file = os.open(f"{folder}/file", os.O_RDONLY)
    os.read(file, 4096)
    os.close(file)
    os.listdir(folder)
    os.close(os.open(f"{folder}/new", os.O_CREAT | os.O_WRONLY))
    os.remove(f"{folder}/new")


taken = []
for _ in range(ROUNDS):
    began = time.perf_counter()
    work()
    taken.append(time.perf_counter() - began)
    time.sleep(PAUSE)
print(sorted(taken)[ROUNDS * 99 // 100])
