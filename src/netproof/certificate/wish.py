"""Certificates of many questions that are asked for: into one folder. No numpy here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netproof.certificate.state import SECONDS, Certificate
from netproof.errors import of_path


@dataclass(frozen=True)
class Wish:
    """A folder for certificates, and one in it for what is not finished."""

    folder: Path
    room: Path
    seconds: float = SECONDS
    check: bool = True

    @staticmethod
    def folder_at(folder: str | Path) -> Path:
        """Make the folder where there is none."""
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise of_path(error) from None
        return Path(folder)

    def stands(self, state: Mapping[str, Any] | None) -> bool:
        """Say whether the certificate of a proof need not be made again.

        It does where it is in the folder, or could not be made in as much time.
        """
        if state is None or not Path(state["path"]).is_relative_to(self.folder):
            return False
        if state["written"]:
            return Path(state["path"]).is_file()
        return not Certificate.was_interrupted(state) and bool(state["limit"] >= self.seconds)
