"""Copies between a volume and the host."""

from __future__ import annotations

import os
import shutil
import stat as stat_bits
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from ._volume import StrPath, Volume

CHUNK = 1 << 20


def copy_in(volume: Volume, host: StrPath, path: str) -> None:
    source = os.fsdecode(host)
    found = os.lstat(source)
    if stat_bits.S_ISLNK(found.st_mode):
        volume.symlink(os.readlink(source), path)
    elif stat_bits.S_ISDIR(found.st_mode):
        volume.mkdir(path)
        with os.scandir(source) as entries:
            for entry in entries:
                copy_in(volume, entry.path, os.path.join(path, entry.name))
    elif stat_bits.S_ISREG(found.st_mode):
        with open(source, "rb") as reader, volume.open(path, "xb") as writer:
            shutil.copyfileobj(reader, writer, CHUNK)
    else:
        raise shutil.SpecialFileError(f"{source!r} is neither a file, a directory nor a symbolic link")
    if not stat_bits.S_ISLNK(found.st_mode):
        volume.chmod(path, stat_bits.S_IMODE(found.st_mode))
    volume.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def copy_out(volume: Volume, path: str, host: StrPath) -> None:
    target = os.fsdecode(host)
    visits = _native.Visits()
    if not stat_bits.S_ISDIR(volume.lstat(path).st_mode):
        _one_out(volume, visits, path, target)
        return
    made: list[tuple[str, str]] = []
    damage = None
    try:
        for above, _, files in volume.walk(path):
            to = os.path.join(target, os.path.relpath(above, path)) if made else target
            # Everything is created anew, so that no name of the volume leads through a link that was copied before.
            os.mkdir(to)
            made.append((above, to))
            for name in files:
                try:
                    _one_out(volume, visits, os.path.join(above, name), os.path.join(to, name))
                except _native.CorruptError as e:
                    damage = damage or e
    finally:
        for above, to in reversed(made):
            _attributes_out(volume.lstat(above), to)
    if damage is not None:
        raise damage


def _one_out(volume: Volume, visits: _native.Visits, path: str, target: str) -> None:
    found = volume.lstat(path)
    volume._visit(visits, path, False)
    if stat_bits.S_ISLNK(found.st_mode):
        os.symlink(volume.readlink(path), target)
    elif stat_bits.S_ISREG(found.st_mode):
        with volume.open(path, "rb") as reader, open(target, "xb") as writer:
            shutil.copyfileobj(reader, writer, CHUNK)
    else:
        return
    _attributes_out(found, target)


def _attributes_out(found: os.stat_result, target: str) -> None:
    if not stat_bits.S_ISLNK(found.st_mode):
        # An image must not bring programs that run as another user.
        os.chmod(target, found.st_mode & 0o777)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)
