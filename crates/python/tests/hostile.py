"""Opens each image whose path comes on standard input, reads and changes everything, and answers with one line: "opened", or
"refused". Anything but an exception of the kinds that are documented ends the program."""

import os
import stat
import sys

import segnofs

# Enough for every volume of segno-sim's hostile images; a damaged one may announce more.
NAMES = 500
BYTES = 256 << 10


def attempt(call, *args, **kw):
    try:
        return call(*args, **kw)
    except OSError as e:
        assert e.errno, repr(e)
        return None


def visit(volume, path):
    found = attempt(volume.lstat, path)
    for name in attempt(volume.listxattr, path, follow_symlinks=False) or []:
        attempt(volume.getxattr, path, name, follow_symlinks=False)
    if found is None:
        return
    if stat.S_ISLNK(found.st_mode):
        attempt(volume.readlink, path)
        attempt(volume.stat, path)
    elif stat.S_ISREG(found.st_mode):
        file = attempt(volume.open, path, "rb", buffering=0)
        if file is not None:
            with file:
                buffer = bytearray(BYTES)
                attempt(file.readinto, buffer)
                attempt(file.pread_into, buffer, max(0, found.st_size - 5000))
                attempt(file.seek, 0, os.SEEK_DATA)


def walk(volume):
    paths = ["/"]
    try:
        for above, dirs, files in volume.walk():
            paths += [os.path.join(above, name) for name in dirs + files]
            if len(paths) > NAMES:
                break
    except OSError as e:
        assert e.errno, repr(e)
    for path in paths[:NAMES]:
        visit(volume, path)
    return paths


def change(volume, paths):
    for number, path in enumerate(paths[:: max(1, len(paths) // 8)]):
        attempt(volume.chmod, path, 0o600)
        attempt(volume.mkdir, os.path.join(path, "new"))
        attempt(volume.write_bytes, os.path.join(path, "file"), b"x" * 5000)
        attempt(volume.truncate, path, 100)
        attempt(volume.rename, path, f"/renamed-{number}")
        attempt(volume.rmtree if number % 2 else volume.unlink, f"/renamed-{number}")
    attempt(volume.sync)


def session(image, writable):
    try:
        volume = segnofs.Volume(image, writable=writable, skip_recovery=not writable, cache_bytes=8 << 20)
    except OSError as e:
        assert e.errno, repr(e)
        return False
    try:
        paths = walk(volume)
        if writable:
            change(volume, paths)
    finally:
        attempt(volume.close)
    return True


for line in sys.stdin:
    image = line.rstrip("\n")
    attempt(segnofs.check, image)
    attempt(segnofs.check_replayed, image)
    attempt(segnofs.plan_repair, image)
    opened = session(image, False) | session(image, True)
    print("opened" if opened else "refused", flush=True)
