"""What MkDocs calls: pages that are made from the code are added to those that are written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parent))

import columns
import commands
import exit_codes
import json_page
import notebook
import python_api

# By the path of the page, what makes its text.
PAGES = {
    "reference/commands.md": commands.page,
    "reference/exit-codes.md": exit_codes.page,
    "reference/python.md": python_api.page,
    "reference/json.md": json_page.page,
    "reference/csv.md": columns.page,
    "notebook.md": notebook.page,
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, made in PAGES.items():
        files.append(File.generated(config, path, content=made()))
    return files
