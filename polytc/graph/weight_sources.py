"""Where a model's weights may be read from, and how."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """folders: of external data, besides that of the model, links followed. in_place: map the model's files where they are,
    instead of memory or a copy that nobody else writes to (disk/weights.py)."""

    folders: tuple[Path, ...] = ()
    in_place: bool = False

    @staticmethod
    def of(folders: Iterable[str | os.PathLike[str]], in_place: bool) -> Places:
        """Folders as the user names them."""
        return Places(tuple(Path(os.path.realpath(f)) for f in folders), in_place)

    def trusted(self, model: Path) -> tuple[Path, ...]:
        """The folders that links beside the model may lead to: that of its own bytes, if it is a link, and those given."""
        return (*self.folders, Path(os.path.realpath(model)).parent) if model.is_symlink() else self.folders


USUAL = Places()
"""The model's own folder, and nothing mapped in place."""
