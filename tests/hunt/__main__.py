"""Hunt for wrong verdicts: `python -m hunt --seconds 600 --workers 2`, or `--seed N` to repeat one question."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hunt.plants import PLANTS
from hunt.workers import Plan, run_seed, run_workers


def main() -> int:
    args = _arguments()
    plan = Plan(
        seconds=args.seconds,
        workers=args.workers,
        first=args.first,
        timeout=args.timeout,
        out=args.out,
        plant=args.plant,
        stop=args.stop,
        shrink=args.shrink,
        modules=args.modules,
        certificates=args.certificates,
        plants=args.plants,
    )
    if args.seed is not None:
        tally = run_seed(plan, args.seed)
    else:
        print(f"seeds from {args.first} on, {args.workers} workers; --seed N repeats one of them", flush=True)
        tally = run_workers(plan)
    print(tally.table())
    never = plan.certificates and args.seed is None and not tally.plants and tally.certificates.missing
    return 1 if tally.faults or never else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hunt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to hunt")
    parser.add_argument("--workers", type=int, default=2, help="processes, each on one core")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only the question of this seed")
    parser.add_argument("--modules", action="store_true", help="torch modules only, with seeds of their own")
    parser.add_argument("--certificates", action="store_true", help="mutants of certificates only")
    parser.add_argument("--plants", action="store_true", help="of certificates: searches with each plant in turn")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds a run may take")
    parser.add_argument("--out", type=Path, default=Path("hunt-out"), help="where failing cases are saved")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="a fault put into netproof, to see it found")
    parser.add_argument("--stop", action="store_true", help="end with the first fault")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds for making a case smaller; 0: none")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
