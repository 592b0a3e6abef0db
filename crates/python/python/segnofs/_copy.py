"""Copies between a volume and the host.

The host may change meanwhile: each directory below the one that was named is opened from its parent, no symbolic link is followed, and
attributes are set on descriptors."""

from __future__ import annotations

import errno
import os
import shutil
import stat as stat_bits
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from ._volume import StrPath, Volume

CHUNK = 1 << 20
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Keep:
    """What a copy has besides content, permissions and times."""

    owners: bool = False
    xattrs: bool = False


def attributes_in(volume: Volume, source: int | str, path: str, keep: Keep) -> None:
    """Owner and extended attributes of a file or directory; a change of the owner takes set-user-ID bits away."""
    if keep.xattrs:
        for attribute in os.listxattr(source):
            volume.setxattr(path, attribute, os.getxattr(source, attribute))
    if keep.owners:
        found = os.stat(source)
        volume.chown(path, found.st_uid, found.st_gid)


def attributes_out(volume: Volume, path: str, target: int | str, keep: Keep) -> None:
    """Attributes other than ``user.*``, such as capabilities, are a matter of trust."""
    if keep.xattrs:
        for attribute in volume.listxattr(path):
            if attribute.startswith("user."):
                os.setxattr(target, attribute, volume.getxattr(path, attribute))
    if keep.owners:
        found = volume.stat(path)
        os.chown(target, found.st_uid, found.st_gid)


def copy_in(volume: Volume, host: StrPath, path: str, keep: Keep) -> None:
    with _parent(os.fsdecode(host)) as (at, name):
        _one_in(volume, os.fsdecode(host), at, name, path, keep)


def _one_in(volume: Volume, shown: str, at: int, name: str, path: str, keep: Keep) -> None:
    found = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat_bits.S_ISLNK(found.st_mode):
        volume.symlink(os.readlink(name, dir_fd=at), path)
    elif stat_bits.S_ISDIR(found.st_mode) or stat_bits.S_ISREG(found.st_mode):
        source = os.open(name, READ, dir_fd=at)
        try:
            listed, found = found, os.fstat(source)
            if stat_bits.S_IFMT(found.st_mode) != stat_bits.S_IFMT(listed.st_mode):
                raise OSError(errno.EBUSY, "its kind changed while it was copied", shown)
            _content_in(volume, shown, source, found, path, keep)
            attributes_in(volume, source, path, keep)
        finally:
            os.close(source)
    else:
        raise shutil.SpecialFileError(f"{shown!r} is neither a file, a directory nor a symbolic link")
    if not stat_bits.S_ISLNK(found.st_mode):
        volume.chmod(path, stat_bits.S_IMODE(found.st_mode))
    elif keep.owners:
        volume.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)
    volume.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def _content_in(volume: Volume, shown: str, source: int, found: os.stat_result, path: str, keep: Keep) -> None:
    if stat_bits.S_ISDIR(found.st_mode):
        volume.mkdir(path)
        for name in os.listdir(source):
            _one_in(volume, os.path.join(shown, name), source, name, os.path.join(path, name), keep)
    else:
        with open(source, "rb", closefd=False) as reader, volume.open(path, "xb") as writer:
            shutil.copyfileobj(reader, writer, CHUNK)


def copy_out(volume: Volume, path: str, host: StrPath, keep: Keep) -> None:
    visits = _native.Visits()
    with _parent(os.fsdecode(host)) as (at, target):
        if not stat_bits.S_ISDIR(volume.lstat(path).st_mode):
            _one_out(volume, visits, path, at, target, keep)
            return
        made: list[tuple[str, list[str]]] = []
        damage = None
        try:
            for above, _, files in volume.walk(path):
                names = [target, *os.path.relpath(above, path).split("/")] if made else [target]
                with _below(at, names[:-1]) as parent:
                    os.mkdir(names[-1], 0o700, dir_fd=parent)
                made.append((above, names))
                with _below(at, names) as to:
                    for name in files:
                        try:
                            _one_out(volume, visits, os.path.join(above, name), to, name, keep)
                        except _native.CorruptError as e:
                            damage = damage or e
        finally:
            for above, names in reversed(made):
                with _below(at, names) as to:
                    _attributes_out(volume, above, volume.lstat(above), to, keep)
        if damage is not None:
            raise damage


def _one_out(volume: Volume, visits: _native.Visits, path: str, at: int, name: str, keep: Keep) -> None:
    found = volume.lstat(path)
    volume._visit(visits, path, False)
    if stat_bits.S_ISLNK(found.st_mode):
        os.symlink(volume.readlink(path), name, dir_fd=at)
        if keep.owners:
            os.chown(name, found.st_uid, found.st_gid, dir_fd=at, follow_symlinks=False)
        times = (found.st_atime_ns, found.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=at, follow_symlinks=False)
    elif stat_bits.S_ISREG(found.st_mode):
        target = os.open(name, NEW, 0o600, dir_fd=at)
        with open(target, "wb") as writer, volume.open(path, "rb") as reader:
            shutil.copyfileobj(reader, writer, CHUNK)
            writer.flush()
            _attributes_out(volume, path, found, target, keep)


def _attributes_out(volume: Volume, path: str, found: os.stat_result, target: int, keep: Keep) -> None:
    attributes_out(volume, path, target, keep)
    # An image must not bring programs that run as another user.
    os.chmod(target, found.st_mode & 0o777)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


@contextmanager
def _parent(path: str) -> Iterator[tuple[int, str]]:
    """The directory that a path of the caller is in, and its name there."""
    above, name = os.path.split(path.rstrip("/"))
    at = os.open(above or ("/" if path.startswith("/") else "."), DIRECTORY)
    try:
        yield at, name or "."
    finally:
        os.close(at)


@contextmanager
def _below(at: int, names: Sequence[str]) -> Iterator[int]:
    """A directory below another one."""
    found = os.dup(at)
    try:
        for name in names:
            inner = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=found)
            os.close(found)
            found = inner
        yield found
    finally:
        os.close(found)
