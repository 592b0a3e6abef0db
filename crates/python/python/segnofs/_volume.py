"""Volumes: operations on paths, with the names and signatures of ``os``."""

from __future__ import annotations

import errno
import io
import os
import stat as stat_bits
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any
from uuid import UUID

from . import _copy, _native
from ._file import BUFFER_SIZE, RawFile
from ._stat import stat_result, statvfs_result

if TYPE_CHECKING:
    from types import TracebackType

    from ._native import _Source as Source

StrPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]

DT_UNKNOWN, DT_DIR, DT_REG, DT_LNK = 0, 4, 8, 10


class DirEntry:
    """A name in a directory, as ``os.DirEntry``."""

    def __init__(self, volume: Volume, path: str, name: str, ino: int, kind: int) -> None:
        self.name = name
        self.path = path
        self._volume = volume
        self._ino = ino
        self._kind = kind

    def inode(self) -> int:
        return self._ino

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._volume.stat(self.path, follow_symlinks=follow_symlinks)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(DT_DIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(DT_REG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(DT_LNK, False)

    def _is(self, kind: int, follow: bool) -> bool:
        known = self._kind
        if known == DT_UNKNOWN or (follow and known == DT_LNK):
            try:
                known = stat_bits.S_IFMT(self.stat(follow_symlinks=follow).st_mode) >> 12
            except FileNotFoundError:
                return False
        return known == kind

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class Volume(_native.Volume):
    """The volume in an image file (raw, or an Android sparse image), on a block device, or in a file object: anything with ``seek``, and
    ``read`` or ``readinto``, whose position belongs to the volume until it is closed.

    It is opened for reading unless ``writable`` is true. Paths are ``str``, ``bytes`` or ``os.PathLike``, start at the root of
    the volume, and cannot leave it; names come back as ``str``, with surrogate escapes for what is not UTF-8, as from
    ``os.fsdecode``. Permission bits are stored and not enforced. What is created belongs to user and group 0.

    :meth:`close` closes the files that are open, writes everything and unmounts; ``with`` calls it. Without, what was not
    synced may be lost. All methods may be called from several threads, and release the interpreter lock while they wait.
    """

    def __init__(
        self,
        path: Source,
        *,
        writable: bool = False,
        skip_recovery: bool = False,
        cache_bytes: int = 64 << 20,
        journal: StrPath | None = None,
        devices: Sequence[StrPath] = (),
    ) -> None:
        """Opens a volume.

        What a crash left is replayed: in memory if the volume is opened for reading, on the device otherwise. With
        ``skip_recovery`` the volume is shown as of its last checkpoint. ``cache_bytes`` limits the memory for cached data and
        metadata, and for a replay in memory. ``journal`` is the external journal: a volume that was mounted with one and not
        unmounted is not opened without it (``ENODEV``). ``devices`` are the further devices of a volume of several, in order: paths
        that the volume records are not opened (``EINVAL``). A file object that is opened as ``writable`` needs ``write``, and is as
        durable as its ``flush`` and ``os.fsync`` of its ``fileno()``, if it has one.
        """
        self._files: weakref.WeakSet[IO[Any]] = weakref.WeakSet()
        self._files_lock = threading.Lock()
        self._warn_unclosed = True
        self._name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else repr(path)
        self.writable = writable

    def close(self) -> None:
        """Closes the files that are open, writes everything and unmounts."""
        try:
            with self._files_lock:
                files = list(self._files)
            for file in files:
                file.close()
        finally:
            self._close()

    def __enter__(self) -> Volume:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            forgotten = not self.closed
        except (AttributeError, OSError):
            return
        if forgotten:
            # No file of it is open, as each would keep it.
            self._close()
            if self._warn_unclosed:
                warnings.warn(f"unclosed volume {self._name!r}", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<segnofs.Volume {self._name!r}>"

    @property
    def uuid(self) -> UUID:
        """The id that the volume was given when it was formatted."""
        return UUID(bytes=self._uuid())

    def open(
        self,
        path: StrPath,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Opens a file, as the function ``open``."""
        flags, binary = _flags(mode)
        if binary and (encoding is not None or errors is not None or newline is not None):
            raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
        if buffering == 0 and not binary:
            raise ValueError("can't have unbuffered text I/O")
        raw = self._raw(path, flags)
        file: Any = raw
        size = BUFFER_SIZE if buffering in (-1, 1) else buffering
        if size != 0:
            if "+" in flags:
                file = io.BufferedRandom(raw, size)
            else:
                file = io.BufferedReader(raw, size) if "r" in flags else io.BufferedWriter(raw, size)
        if not binary:
            file = io.TextIOWrapper(file, encoding, errors, newline, line_buffering=buffering == 1)
            file.mode = mode
        opened: IO[Any] = file
        with self._files_lock:
            self._files.add(opened)
        return opened

    def _raw(self, path: StrPath, flags: str) -> RawFile:
        appends, new, truncates = "a" in flags, "x" in flags, "w" in flags
        reads, writes = flags == "r" or "+" in flags, flags != "r" and not appends
        file = self._open(path, reads, writes, appends, appends or truncates, new, truncates)
        return RawFile(file, self, os.fsdecode(path), flags)

    def read_bytes(self, path: StrPath) -> bytes:
        """The content of a file."""
        with self._raw(path, "r") as raw:
            return raw.readall()

    def read_text(self, path: StrPath, encoding: str | None = None, errors: str | None = None) -> str:
        """The content of a file as text."""
        with self.open(path, "r", -1, encoding, errors) as file:
            text: str = file.read()
            return text

    def write_bytes(self, path: StrPath, data: bytes) -> int:
        """Writes a file of this content; an existing one is replaced."""
        with self.open(path, "wb") as file:
            return file.write(data)

    def write_text(self, path: StrPath, text: str, encoding: str | None = None, errors: str | None = None) -> int:
        """Writes a file of this text; an existing one is replaced."""
        with self.open(path, "w", -1, encoding, errors) as file:
            return file.write(text)

    def stat(self, path: StrPath, *, follow_symlinks: bool = True) -> os.stat_result:
        """Attributes, as ``os.stat``."""
        return stat_result(self._stat(path, follow_symlinks))

    def lstat(self, path: StrPath) -> os.stat_result:
        """Attributes of a symbolic link itself, or of what has the path."""
        return self.stat(path, follow_symlinks=False)

    def statvfs(self) -> os.statvfs_result:
        """Space and inodes, as ``os.statvfs``."""
        return statvfs_result(self._statvfs(), self.writable)

    def exists(self, path: StrPath) -> bool:
        """Whether a path leads to anything."""
        return self._mode(path) != 0

    def isfile(self, path: StrPath) -> bool:
        """Whether a path leads to a regular file."""
        return stat_bits.S_ISREG(self._mode(path))

    def isdir(self, path: StrPath) -> bool:
        """Whether a path leads to a directory."""
        return stat_bits.S_ISDIR(self._mode(path))

    def islink(self, path: StrPath) -> bool:
        """Whether a path names a symbolic link."""
        return stat_bits.S_ISLNK(self._mode(path, follow=False))

    def _mode(self, path: StrPath, *, follow: bool = True) -> int:
        try:
            return self._stat(path, follow)[0]
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def listdir(self, path: StrPath = "/") -> list[str]:
        """The names in a directory, in the order of the volume."""
        return [name for name, _, _ in self._names(path)]

    def scandir(self, path: StrPath = "/") -> Iterator[DirEntry]:
        """The names in a directory, with types, in the order of the volume."""
        above = os.fsdecode(path)
        names = self._names(path)
        return (DirEntry(self, os.path.join(above, name), name, ino, kind) for name, ino, kind in names)

    def walk(self, top: StrPath = "/") -> Iterator[tuple[str, list[str], list[str]]]:
        """Everything below a directory, from the top, as ``os.walk``: symbolic links to directories are among the names of
        files here, and are not entered. A directory that cannot be read raises; one that damage leads to twice does when the
        rest was walked."""
        visits, todo = _native.Visits(), [os.fsdecode(top)]
        self._visit(visits, top, True)
        damage = None
        while todo:
            path = todo.pop()
            dirs, files, inner = [], [], set()
            for entry in self.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    dirs.append(entry.name)
                    inner.add(entry.name)
                else:
                    files.append(entry.name)
            yield path, dirs, files
            for name in reversed([name for name in dirs if name in inner]):
                below = os.path.join(path, name)
                try:
                    self._visit(visits, below, False)
                    todo.append(below)
                except _native.CorruptError as e:
                    damage = damage or e
        if damage is not None:
            raise damage

    def makedirs(self, path: StrPath, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Creates a directory and those above it that are missing."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
        new = mode != 0o755 and not self.exists(path)
        self._makedirs(path)
        if new:
            self.chmod(path, mode)

    def replace(self, src: StrPath, dst: StrPath) -> None:
        """Renames, as :meth:`rename`."""
        self.rename(src, dst)

    remove = _native.Volume.unlink

    def utime(
        self,
        path: StrPath,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Sets the times of access and modification, as ``os.utime``."""
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if times is not None:
            ns = (int(times[0] * 1e9), int(times[1] * 1e9))
        now = time.time_ns()
        atime, mtime = ns or (now, now)
        self._utime(path, atime, mtime, follow_symlinks)

    def getxattr(self, path: StrPath, attribute: str | bytes, *, follow_symlinks: bool = True) -> bytes:
        """The value of an extended attribute."""
        value = self._getxattr(path, attribute, follow_symlinks)
        if value is None:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), os.fsdecode(path))
        return value

    def copy_in(self, host: StrPath, path: StrPath, *, owners: bool = False, xattrs: bool = False) -> None:
        """Copies a file or directory of the host into the volume, with permissions, times and symbolic links. With ``owners`` users and
        groups are kept, and with ``xattrs`` the extended attributes that the caller may read. What ``path`` names must not exist."""
        _copy.copy_in(self, host, os.fsdecode(path), _copy.Keep(owners, xattrs))

    def copy_out(self, path: StrPath, host: StrPath, *, owners: bool = False, xattrs: bool = False) -> None:
        """Copies a file or directory of the volume to the host, with permissions, times and symbolic links. With ``owners`` users and
        groups are kept, which needs privileges, and with ``xattrs`` the attributes ``user.*``: others, such as file capabilities, are a
        matter of trust, see :func:`extract`. What ``host`` names must not exist; device nodes, pipes and sockets are left out."""
        _copy.copy_out(self, os.fsdecode(path), host, _copy.Keep(owners, xattrs))


def _flags(mode: str) -> tuple[str, bool]:
    """The mode without "t" and "b", and whether it is binary."""
    letters = set(mode)
    kinds = letters & set("rwax")
    if len(letters) != len(mode) or letters - set("rwaxtb+") or len(kinds) != 1 or {"t", "b"} <= letters:
        raise ValueError(f"invalid mode: {mode!r}")
    return kinds.pop() + ("+" if "+" in letters else ""), "b" in letters
