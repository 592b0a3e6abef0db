"""Images of whole trees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from . import _native

StrPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


@dataclass(frozen=True)
class BuildReport:
    """What was built."""

    image_bytes: int
    """Size of the image. A sparse image is the size of what it stands for."""
    free_bytes: int
    """Space that is left for files."""
    files: int
    """Inodes in the image, with the root."""
    content_bytes: int
    """Sizes of all files, each counted once."""
    compressed_files: int
    """Files with compressed clusters."""
    saved_bytes: int
    """Space that compression saves. It is free only where it is released."""
    uuid: UUID
    """The volume's id."""
    notes: list[str]
    """What the caller should know; nothing is missing in the image."""


@dataclass(frozen=True)
class ExtractReport:
    """What was extracted."""

    files: int
    """Files, directories and others, each inode once."""
    bytes: int
    """Bytes of content."""
    renamed: list[tuple[str, str]]
    """Paths with names that the host cannot store, and what stands for them."""
    incomplete: int
    """Files with metadata that the target does not have; a manifest has it."""
    left_out: dict[str, int]
    """Files that lack a property because ``preserve`` does not name it, for each of its words that has any."""


def build(
    source: StrPath,
    image: StrPath,
    *,
    size: int | None = None,
    label: str = "",
    uuid: UUID | None = None,
    time: int | None = None,
    source_date_epoch: int | None = None,
    owner: tuple[int, int] | None = None,
    compress: str | None = None,
    log_cluster: int = 2,
    read_only: bool = False,
    sparse: bool = False,
    manifest: StrPath | None = None,
    journal: StrPath | None = None,
    devices: Sequence[StrPath] = (),
    force: bool = False,
) -> BuildReport:
    """Builds an image of a directory, a tar archive or another image. The same input gives the same bytes, and whatever of it
    cannot be stored is an error. The file gets its name when it is complete; ``force`` replaces an existing one.

    Without ``size`` it is the smallest volume that holds the tree, and without ``uuid`` the id is derived from the tree.
    ``time`` is the time of all files, and ``source_date_epoch`` replaces later ones, both in seconds since 1970. ``owner``, user
    and group, replaces the owners of the source. ``compress`` is an algorithm with or without a level, such as ``"lz4"`` or
    ``"zstd:19"``, for clusters of ``2 ** log_cluster`` blocks. ``read_only`` is the layout of volumes that are never written,
    ``sparse`` the Android sparse format, ``manifest`` a file that :func:`extract` wrote, ``journal`` the external journal of
    a source that is an image, and ``devices`` its further devices in order."""
    id = None if uuid is None else uuid.bytes
    flags = (read_only, sparse, force)
    image_bytes, free, files, content, compressed, saved, made_id, notes = _native._build(
        source,
        image,
        size,
        label,
        id,
        time,
        source_date_epoch,
        owner,
        compress,
        log_cluster,
        flags,
        manifest,
        journal,
        devices,
    )
    return BuildReport(image_bytes, free, files, content, compressed, saved, UUID(bytes=made_id), notes)


def extract(
    image: StrPath,
    directory: StrPath | None = None,
    *,
    tar: StrPath | None = None,
    path: StrPath = "/",
    manifest: StrPath | None = None,
    journal: StrPath | None = None,
    devices: Sequence[StrPath] = (),
    preserve: Iterable[str] = (),
) -> ExtractReport:
    """Takes the tree out of an image, raw or Android sparse, into a directory that is new or empty, or into a new tar archive.
    ``path`` is the directory of the volume to extract. ``manifest`` is a file for all metadata, for :func:`build`, ``journal`` the
    external journal of the volume, and ``devices`` its further devices in order.

    An image may be a stranger's, so files in a directory lack set-user-ID and set-group-ID bits, devices are not created, and file
    capabilities and ``trusted.*`` attributes are left out, unless ``preserve`` has ``"setid"``, ``"devices"``, ``"caps"``,
    ``"trusted"`` or ``"all"``. Archives and manifests have everything."""
    if isinstance(preserve, str):
        raise TypeError("preserve is a list of words")
    words = list(preserve)
    if directory is not None and tar is None:
        taken = _native._extract(image, directory, False, path, manifest, journal, devices, words)
    elif tar is not None and directory is None:
        taken = _native._extract(image, tar, True, path, manifest, journal, devices, words)
    else:
        raise TypeError("extract() needs either a directory or tar")
    files, size, renamed, incomplete, left_out = taken
    return ExtractReport(files, size, renamed, incomplete, {word: n for word, n in left_out if n > 0})
