"""Checking a volume, and repairing it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import _native

if TYPE_CHECKING:
    from ._native import _Source as Source

StrPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


@dataclass(frozen=True)
class Problem:
    """A rule of the format that does not hold."""

    severity: Literal["error", "warning"]
    structure: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Report:
    """What a check found."""

    problems: list[Problem]
    """The first problems, up to ``max_problems``."""
    errors: int
    """All errors, also those that ``problems`` does not have."""
    warnings: int
    """All warnings, also those that ``problems`` does not have."""
    complete: bool
    """False if the volume was too damaged to look further."""
    clean_unmount: bool
    """Whether the checkpoint was written by an unmount."""

    @property
    def clean(self) -> bool:
        """Whether no error was found; warnings do not count."""
        return self.errors == 0


def check(path: Source, *, devices: Sequence[StrPath] = (), max_problems: int = 1000) -> Report:
    """Checks a volume that is not open, and changes nothing. Damage is no exception but is described in the report.

    ``devices`` are those of a volume of several after the first, in order."""
    problems, errors, warnings, complete, clean_unmount = _native._check(path, devices, max_problems)
    return Report([Problem(*p) for p in problems], errors, warnings, complete, clean_unmount)


@dataclass(frozen=True)
class ReplayedReport(Report):
    """What a check found on a volume with what a crash left replayed."""

    quick: bool
    """Whether only the tables were read."""
    replayed: bool
    """Whether there was something to replay, which was done in memory; :func:`replay` writes it."""
    repairable: bool
    """Whether :func:`repair` has something to do."""
    replay_error: str | None
    """Why what a crash left cannot be replayed."""
    lost_checkpoint: str | None
    """Why the newest checkpoint is known to be lost: a journal is ahead of the volume."""
    lost_changes: str | None
    """Why committed changes are lost that only the journal had: another implementation has written to the volume."""

    @property
    def clean(self) -> bool:
        """Whether no error was found, also in what a crash left."""
        errors = (self.replay_error, self.lost_checkpoint, self.lost_changes)
        return super().clean and all(error is None for error in errors)


def check_replayed(
    path: Source,
    *,
    journal: StrPath | None = None,
    devices: Sequence[StrPath] = (),
    max_problems: int = 1000,
    quick: bool = False,
    data: bool = False,
) -> ReplayedReport:
    """Checks a volume that is not open like :func:`check`, with what a crash left replayed in memory, and changes nothing.

    ``quick`` reads only the tables of a volume that was unmounted cleanly, if nothing is wrong with them; ``data`` reads the
    content of compressed files, too. ``journal`` is the external journal."""
    report, quick, replayed, repairable, replay_error, lost = _native._check_replayed(
        path, devices, journal, max_problems, quick, data
    )
    problems, errors, warnings, complete, clean_unmount = report
    return ReplayedReport(
        [Problem(*p) for p in problems],
        errors,
        warnings,
        complete,
        clean_unmount,
        quick,
        replayed,
        repairable,
        replay_error,
        *lost,
    )


@dataclass(frozen=True)
class Action:
    """One thing that a repair changes."""

    loss: bool
    """Whether something is lost that the volume had, or may have had."""
    ino: int | None
    """The inode concerned."""
    path: str | None
    """Its path after the repair, where it has one."""
    text: str
    """What is done."""

    def __str__(self) -> str:
        return self.text


def plan_repair(
    path: Source, *, journal: StrPath | None = None, devices: Sequence[StrPath] = ()
) -> list[Action]:
    """What :func:`repair` would do; nothing is written."""
    return [Action(*a) for a in _native._repair(path, devices, journal, False)]


def repair(path: Source, *, journal: StrPath | None = None, devices: Sequence[StrPath] = ()) -> list[Action]:
    """Repairs a volume that is not open, and returns what was done: nothing if there is nothing to repair. A power cut meanwhile
    leaves the volume as it was, or repaired. What a crash left is replayed, unless that is all there is to do: see
    :func:`replay`. Where the repair would give up an external journal or a lost checkpoint, :class:`CorruptError` is raised.

    ``journal`` is the external journal, and ``devices`` are those of a volume of several after the first, in order."""
    return [Action(*a) for a in _native._repair(path, devices, journal, True)]
