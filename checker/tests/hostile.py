"""Run npcheck with little memory beyond what Python and numpy take: `python hostile.py MEGABYTES ARGUMENTS`."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import npcheck.__main__ as command

if __name__ == "__main__":
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = taken + (int(sys.argv[1]) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.exit(command.main(sys.argv[2:]))
