"""F2FS volumes without a mount and without privileges: open images, read and write files, format, check and repair, build images of
directories and archives and take them apart.

>>> import segnofs
>>> segnofs.mkfs("disk.img", 64 << 20)
>>> with segnofs.Volume("disk.img", writable=True) as volume:
...     volume.mkdir("/photos")
...     with volume.open("/photos/list.txt", "w") as file:
...         print("one", file=file)
...     volume.listdir("/photos")
['list.txt']

Failures are :class:`OSError` with an errno, so ``FileNotFoundError`` and the others of its subclasses; damage of a volume is
:class:`CorruptError`.
"""

from ._check import Action, Problem, ReplayedReport, Report, check, check_replayed, plan_repair, repair
from ._file import RawFile
from ._image import BuildReport, ExtractReport, build, extract
from ._native import CorruptError, mkfs, replay
from ._volume import DirEntry, Volume

__all__ = [
    "Action",
    "BuildReport",
    "CorruptError",
    "DirEntry",
    "ExtractReport",
    "Problem",
    "RawFile",
    "ReplayedReport",
    "Report",
    "Volume",
    "build",
    "check",
    "check_replayed",
    "extract",
    "mkfs",
    "plan_repair",
    "repair",
    "replay",
]
