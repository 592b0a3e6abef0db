"""Reading 1 GiB from Python, compared with the Rust library: `read_speed.py RUST_PROGRAM DIRECTORY`, called by
scripts/bench-python. Rounds alternate; each is a process of its own, and its figures are those of wait4(2)."""

import os
import statistics
import subprocess
import sys
import time

import segnofs

BYTES = 1 << 30
ROUNDS = 7

READ = """
import segnofs, sys
with segnofs.Volume(sys.argv[1]) as volume, volume.open("/f", "rb", buffering={buffering}) as file:
    size, buffer = 0, bytearray(1 << 20)
    while n := {call}:
        size += n
print(size, "bytes")
"""


def main(rust, directory):
    image = os.path.join(directory, "read-speed.img")
    segnofs.mkfs(image, 2 << 30)
    try:
        with segnofs.Volume(image, writable=True) as volume, volume.open("/f", "wb") as file:
            block = os.urandom(1 << 20)
            for _ in range(BYTES >> 20):
                file.write(block)
        variants = {
            "Rust": [rust, image, "/f"],
            "Python, readinto": [sys.executable, "-c", READ.format(buffering=0, call="file.readinto(buffer)"), image],
            "Python, read": [sys.executable, "-c", READ.format(buffering=-1, call="len(file.read(1 << 20))"), image],
            "Python, import only": [sys.executable, "-c", "import segnofs"],  # What the others spend before they read.
        }
        figures = {name: [] for name in variants}
        for _ in range(ROUNDS):
            for name, command in variants.items():
                figures[name].append(measure(command))
    finally:
        os.unlink(image)
    print(f"{BYTES >> 20} MiB, image in the page cache, medians of {ROUNDS} alternating rounds")
    rust_cpu, rust_wall = (statistics.median(f[i] for f in figures["Rust"]) for i in (0, 1))
    for name, rounds in figures.items():
        cpu, wall = (statistics.median(f[i] for f in rounds) for i in (0, 1))
        print(f"{name:20} user+sys {cpu:.3f} s ({rust_cpu / cpu:.2f} of Rust's speed), wall {wall:.3f} s ({rust_wall / wall:.2f})")


def measure(command):
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0 and said in (f"{BYTES} bytes\n".encode(), b""), (command, said)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - started


main(*sys.argv[1:])
