"""Stops netproof at a place, so that a test can interrupt it there: $SLOW_AT says where, $SLOW_MARK is touched then.

Python imports this module by itself where its folder is on PYTHONPATH. All else is netproof itself.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

PLACES = {
    "search": ("netproof.run.gather", "Gather", "run"),
    "writing": ("netproof.certificate.body", "Body", "close"),  # some of the file is there
    "checking": ("npcheck.check", None, "check"),
}


def wait(*arguments, **named):
    Path(os.environ["SLOW_MARK"]).touch()
    time.sleep(120)
    raise RuntimeError("no signal came")


class Slow(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        module, holder, function = PLACES[os.environ["SLOW_AT"]]
        if name != module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def then(made):
            execute(made)
            setattr(made if holder is None else getattr(made, holder), function, wait)

        spec.loader.exec_module = then
        return spec


if os.environ.get("SLOW_AT"):
    sys.meta_path.insert(0, Slow())
