"""Checking a volume."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from . import _native

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


def check(path: StrPath, *, devices: Sequence[StrPath] = (), max_problems: int = 1000) -> Report:
    """Checks a volume that is not open, and changes nothing. Damage is no exception but is described in the report.

    ``devices`` are those of a volume of several after the first, in order."""
    problems, errors, warnings, complete, clean_unmount = _native._check(path, devices, max_problems)
    return Report([Problem(*p) for p in problems], errors, warnings, complete, clean_unmount)
