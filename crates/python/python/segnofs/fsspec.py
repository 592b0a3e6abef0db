"""Volumes for fsspec: URLs like ``segno://photos/list.txt::/data/disk.img``."""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from datetime import datetime, timezone
from typing import IO, Any

import fsspec  # type: ignore[import-untyped, unused-ignore]
from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped, unused-ignore]

from . import _copy
from ._volume import Volume

CHUNK = 1 << 20


class SegnoFileSystem(AbstractFileSystem):  # type: ignore[misc, unused-ignore]
    """The files of a volume.

    The image is a local file. One elsewhere works through a cache of fsspec that keeps it locally, read-only:
    ``segno://list.txt::simplecache::https://example.org/disk.img``.
    """

    protocol = "segno"
    root_marker = "/"
    cachable = False

    def __init__(
        self,
        fo: str = "",
        writable: bool | None = None,
        auto_mkdir: bool = False,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Opens the image ``fo``; ``writable`` for changes, which :meth:`close` completes. By default it is opened for reading, and again
        for writing when the first file is. ``auto_mkdir`` creates directories that a new file needs."""
        super().__init__(**kwargs)
        self.auto_mkdir = auto_mkdir
        image = fsspec.open_local(fo, protocol=target_protocol, **(target_options or {}))
        if not isinstance(image, str):
            raise ValueError(f"one image is needed, not {len(image)}")
        self._image, self._writable = image, writable
        self._open_volume(bool(writable))

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        path = super()._strip_protocol(path)
        return path if isinstance(path, list) else "/" + path.lstrip("/")

    def _open_volume(self, writable: bool) -> None:
        self.volume = Volume(self._image, writable=writable)
        # File systems of fsspec are not closed; the volume is when neither they nor their files are used any more.
        self.volume._warn_unclosed = False

    def _changing(self) -> Volume:
        """The volume, open for writing unless the caller chose that it is not."""
        if self._writable is None:
            if any(not file.closed for file in self.volume._files):
                raise OSError(errno.EBUSY, "files are open for reading: open the file system with writable=True", self._image)
            self.volume.close()
            self._open_volume(True)
            self._writable = True
        return self.volume

    def close(self) -> None:
        """Closes the volume and its files."""
        self.volume.close()

    def sync(self) -> None:
        """Makes everything durable that was done before this call."""
        self.volume.sync()

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._info(path, self.volume.lstat(path))

    def _info(self, path: str, found: os.stat_result) -> dict[str, Any]:
        info = {
            "name": path,
            "size": found.st_size,
            "type": _type(found.st_mode),
            "islink": stat_bits.S_ISLNK(found.st_mode),
            "mode": found.st_mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "nlink": found.st_nlink,
            "ino": found.st_ino,
            "mtime": found.st_mtime,
            "created": found.st_ctime,
        }
        if info["islink"]:
            info["destination"] = self.volume.readlink(path)
            try:
                led = self.volume.stat(path)
            except OSError:
                return info
            # Links to directories are not followed, as they may lead in circles.
            if stat_bits.S_ISREG(led.st_mode):
                info.update(type="file", size=led.st_size)
        return info

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        found = self.info(path)
        if found["type"] == "directory":
            entries = self.volume.scandir(path)
            if not detail:
                return sorted(e.path for e in entries)
            infos = [self._info(e.path, e.stat(follow_symlinks=False)) for e in entries]
            return sorted(infos, key=lambda info: info["name"])
        return [found] if detail else [path]

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **kw: Any) -> IO[bytes]:
        if not autocommit:
            raise NotImplementedError("transactions are not supported")
        path = self._strip_protocol(path)
        if self.auto_mkdir and "r" not in mode:
            self.makedirs(self._parent(path), exist_ok=True)
        volume = self.volume if mode == "rb" else self._changing()
        return volume.open(path, mode)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        with self.volume._raw(self._strip_protocol(path), "r") as file:
            size = file.size()
            first, last = (_offset(given, size, default) for given, default in ((start, 0), (end, size)))
            return file.read_at(first, max(0, last - first))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        with self._open(path, "xb" if mode == "create" else "wb") as file:
            file.write(value)

    def put_file(self, lpath: Any, rpath: str, *args: Any, owners: bool = False, xattrs: bool = False, **kwargs: Any) -> None:
        """Copies a file or directory of the host into the volume, with permissions and times; ``owners`` and ``xattrs`` as
        :meth:`Volume.copy_in`."""
        super().put_file(lpath, rpath, *args, **kwargs)
        if isinstance(lpath, str):
            _copy.attributes_in(self.volume, lpath, self._strip_protocol(rpath), _copy.Keep(owners, xattrs))

    def get_file(self, rpath: str, lpath: Any, *args: Any, owners: bool = False, xattrs: bool = False, **kwargs: Any) -> None:
        """Copies a file or directory of the volume to the host; ``owners`` and ``xattrs`` as :meth:`Volume.copy_out`."""
        super().get_file(rpath, lpath, *args, **kwargs)
        if isinstance(lpath, str):
            _copy.attributes_out(self.volume, self._strip_protocol(rpath), lpath, _copy.Keep(owners, xattrs))

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self._changing().makedirs(path)
        else:
            self._changing().mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._changing().makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self._changing().rmdir(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        path = self._strip_protocol(path)
        if stat_bits.S_ISDIR(self.volume.lstat(path).st_mode):
            self._changing().rmdir(path)
        else:
            self._changing().unlink(path)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.volume.isdir(path1):
            self._changing().makedirs(path2, exist_ok=True)
            return
        self._changing()
        with self._open(path1, "rb") as source, self._open(path2, "wb") as target:
            while chunk := source.read(CHUNK):
                target.write(chunk)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.volume.isdir(path2):
            path2 = os.path.join(path2, os.path.basename(path1))
        self._changing().rename(path1, path2)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if truncate or not self.volume.exists(path):
            self.pipe_file(path, b"")
        self._changing().utime(path)

    def created(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["created"], tz=timezone.utc)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)


def _type(mode: int) -> str:
    if stat_bits.S_ISDIR(mode):
        return "directory"
    if stat_bits.S_ISREG(mode):
        return "file"
    return "link" if stat_bits.S_ISLNK(mode) else "other"


def _offset(given: int | None, size: int, default: int) -> int:
    if given is None:
        return default
    return max(0, size + given) if given < 0 else min(given, size)
