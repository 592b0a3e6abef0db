"""File objects."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from ._stat import stat_result

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

    from . import _native
    from ._volume import Volume

BUFFER_SIZE = 128 << 10


class RawFile(io.RawIOBase):
    """An unbuffered file of a volume. It has a position of its own; several may be open on one file."""

    def __init__(self, file: _native.File, volume: Volume, path: str, flags: str) -> None:
        self._file = file
        # Keeps it open as long as the file.
        self._volume: Volume | None = volume
        self._readable = flags == "r" or "+" in flags
        self._writable = flags != "r"
        self._appending = "a" in flags
        self._pos = self.size() if self._appending else 0
        self.name = path
        self.mode = flags[0] + "b" + flags[1:]

    def size(self) -> int:
        """The current size in bytes."""
        return self._open_file().stat()[5]

    def _open_file(self) -> _native.File:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._file

    def _check(self, allowed: bool, what: str) -> _native.File:
        file = self._open_file()
        if not allowed:
            raise io.UnsupportedOperation(f"not {what}")
        return file

    def readable(self) -> bool:
        self._open_file()
        return self._readable

    def writable(self) -> bool:
        self._open_file()
        return self._writable

    def seekable(self) -> bool:
        self._open_file()
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        n = self._check(self._readable, "readable").read_into(buffer, self._pos)
        self._pos += n
        return n

    def readall(self) -> bytes:
        file = self._check(self._readable, "readable")
        rest = file.read(self._pos, max(0, self.size() - self._pos))
        self._pos += len(rest)
        return rest

    def write(self, data: Buffer, /) -> int:
        n = self._check(self._writable, "writable").write_from(data, self._pos)
        self._pos = self.size() if self._appending else self._pos + n
        return n

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from an offset; the position stays."""
        return self._check(self._readable, "readable").read(offset, size)

    def pread_into(self, buffer: Buffer, offset: int) -> int:
        """Reads from an offset; the position stays."""
        return self._check(self._readable, "readable").read_into(buffer, offset)

    def pwrite(self, data: Buffer, offset: int) -> int:
        """Writes at an offset; the position stays. A file opened with "a" is written at its end."""
        return self._check(self._writable, "writable").write_from(data, offset)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """``os.SEEK_DATA`` and ``os.SEEK_HOLE`` work too; behind the last data they raise ``OSError`` with ENXIO."""
        file = self._open_file()
        if whence == os.SEEK_CUR:
            offset += self._pos
        elif whence == os.SEEK_END:
            offset += self.size()
        elif whence in (os.SEEK_DATA, os.SEEK_HOLE):
            found = file.seek_data(offset) if whence == os.SEEK_DATA else file.seek_hole(offset)
            if found is None:
                raise OSError(6, "No such device or address", self.name)
            offset = found
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence})")
        if offset < 0:
            raise OSError(22, "Invalid argument", self.name)
        self._pos = offset
        return offset

    def tell(self) -> int:
        self._open_file()
        return self._pos

    def truncate(self, size: int | None = None, /) -> int:
        file = self._check(self._writable, "writable")
        size = self._pos if size is None else size
        if size < 0:
            raise OSError(22, "Invalid argument", self.name)
        file.truncate(size)
        return size

    def stat(self) -> os.stat_result:
        """Attributes, as ``os.fstat``."""
        return stat_result(self._open_file().stat())

    def fsync(self) -> None:
        """Makes content and attributes durable. Flush a buffered file first; ``file.raw`` is the RawFile of one."""
        self._open_file().sync(False)

    def fdatasync(self) -> None:
        """Makes the content durable."""
        self._open_file().sync(True)

    def close(self) -> None:
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()
                self._volume = None

    def __repr__(self) -> str:
        return f"<segnofs.RawFile name={self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"
