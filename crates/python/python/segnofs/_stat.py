"""Results of stat and statvfs as the types of ``os``."""

from __future__ import annotations

import os

Numbers = tuple[int, int, int, int, int, int, int, tuple[int, int], int, int, int, int | None]


def stat_result(numbers: Numbers) -> os.stat_result:
    mode, ino, nlink, uid, gid, size, blocks, device, atime, mtime, ctime, _birth = numbers
    times = (atime, mtime, ctime)
    visible = (mode, ino, 0, nlink, uid, gid, size, *(t // 10**9 for t in times))
    more: dict[str, float] = {"st_blksize": 4096, "st_blocks": blocks, "st_rdev": os.makedev(*device)}
    for name, time in zip(("st_atime", "st_mtime", "st_ctime"), times):
        more[name] = time / 1e9
        more[name + "_ns"] = time
    return os.stat_result(visible, more)


def statvfs_result(numbers: tuple[int, int, int, int, int], writable: bool) -> os.statvfs_result:
    block_size, blocks, free, files, files_free = numbers
    flags = 0 if writable else os.ST_RDONLY
    return os.statvfs_result(
        (block_size, block_size, blocks, free, free, files, files_free, files_free, flags, 255), {"f_fsid": 0}
    )
