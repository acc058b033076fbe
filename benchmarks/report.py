"""Time the report of a large campaign: make a store of results, report it, open the page, sort and filter it.

    python benchmarks/report.py [--runs 10000] [--out DIR]

The page is opened in Chromium where there is one. Exits with 1 where the report takes 10 s or more, or a sort of the
page 200 ms or more.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from options import Parser, positive, run  # noqa: E402
from tables import say, table  # noqa: E402

from netproof._version import __version__  # noqa: E402
from netproof.campaign.store import NAME, Result, Store  # noqa: E402
from netproof.core.machine.describe import describe  # noqa: E402
from netproof.methods.registry import method_info  # noqa: E402
from support.browser import browser, find_browser  # noqa: E402

REPORT, SORT = 10.0, 0.2  # seconds that they must stay below
LIMIT = 60.0
METHODS = ("auto", "lirpa", "beta")
BENCHMARKS = (
    *("acasxu", "cifar10_resnet", "collins", "dist_shift", "metaroom"),
    *("mnist_fc", "nn4sys", "tllverify", "vit", "yolo"),
)


def witness(pixels: int, chance: random.Random) -> str:
    values = [f"(X_{i} {chance.random():.9g})" for i in range(pixels)]
    return "(" + "\n ".join([*values, *(f"(Y_{i} {chance.gauss(0, 2):.9g})" for i in range(10))]) + ")\n"


def result(benchmark: int, instance: int, method: str, chance: random.Random) -> Result:
    """Make a result that looks like a measured one."""
    name = BENCHMARKS[benchmark % len(BENCHMARKS)]
    hard = random.Random(f"{name} {instance}").random()
    sat = hard < 0.25
    late = chance.random() < (0.3 if hard > 0.7 else 0.02)
    verdict = "error" if name == "vit" and instance % 9 == 0 else "timeout" if late else "sat" if sat else "unsat"
    took = LIMIT if late else min(LIMIT, 0.02 * 10 ** (3.2 * hard) * chance.lognormvariate(0, 0.6))
    pixels = 784 if name == "mnist_fc" else 5
    found = verdict == "sat"
    return Result(
        key=f"{name}-{instance}-{method}",
        benchmark=name,
        folder=f"/benchmarks/{name}",
        onnx=f"onnx/{name}_{instance % 17}.onnx",
        onnx_sha256=f"{benchmark:064x}",
        vnnlib=f"vnnlib/prop_{instance}_eps_0.03.vnnlib",
        vnnlib_sha256=f"{instance:064x}",
        truth=None if instance % 3 else "sat" if sat else "unsat",
        method=method,
        options=method_info(method).options(),
        timeout=LIMIT,
        device="cpu",
        threads=2,
        seed=0,
        attack=method_info(method).attacks,
        verdict=verdict,
        reason="time limit" if late else "unsupported operator Sigmoid" if verdict == "error" else "",
        decided_by="attack" if found else "search",
        seconds={"network": 0.01, "load": 0.02, "attack": took * 0.1, "root": took * 0.2, "search": took * 0.6},
        total=took,
        lower_bound=None if found else chance.gauss(0, 1),
        upper_bound=-chance.random() if found else None,
        domains=int(took * 900),
        split=int(took * 400),
        rounds=int(took * 10),
        peak_memory=1 << 28,
        peak_host_memory=1 << 29,
        witness=witness(pixels, chance) if found else "",
        input_shape="1,1,28,28" if pixels == 784 else "1,5",
        **({"original": " ".join(["0.5"] * pixels), "read_as": 3, "was": 5, "changed": 0.5} if found else {}),
        versions={"netproof": __version__, "torch": "2.13.0", "python": "3.12.1"},
        machine=dict(describe()),
        command="netproof bench benchmarks --out campaign",
        started="2026-01-01T10:00:00+00:00",
        finished="2026-01-01T10:00:01+00:00",
        error=f"{name}: node 'n7': unsupported operator Sigmoid: no bounds" if verdict == "error" else "",
    )


def fill(folder: Path, runs: int) -> None:
    """Make a store of so many results."""
    chance = random.Random(1)
    with Store(folder / NAME) as store:
        store._connection.execute("BEGIN")  # one transaction: what is measured is the report
        for number in range(runs):
            place, method = divmod(number, len(METHODS))
            store.add(result(place % len(BENCHMARKS), place // len(BENCHMARKS), METHODS[method], chance))
        store._connection.execute("COMMIT")


def report(folder: Path) -> float:
    """Return the seconds of `netproof report`, the start of Python included."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "netproof", "report", str(folder), "--quiet"], check=True, capture_output=True
    )
    return time.perf_counter() - began


TIMED = """
async (act) => {
  const began = performance.now();
  act();
  document.body.offsetHeight;  // laid out, too
  return performance.now() - began;
}
"""


def measure_page(page: Path) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return the seconds until the page is there, of a sort by each column, and of other things that are done to it."""
    with browser() as tab:
        tab.look(1280)
        began = time.perf_counter()
        tab.open(page)
        opened = time.perf_counter() - began
        tab.js(f"window.timed = {TIMED}; 1")
        names = tab.js("[...document.querySelectorAll('.explored th button')].map((button) => button.textContent)")
        click = "timed(() => document.querySelectorAll('.explored th button')[{}].click())"
        sorts = {name: max(tab.js(click.format(i)) for _ in range(2)) / 1000 for i, name in enumerate(names)}
        tell = "at.dispatchEvent(new Event('input', {{bubbles: true}}))"
        change = "timed(() => {{ const at = {}; at.value = '{}'; " + tell + "; }})"
        others = {
            "search": tab.js(change.format("document.getElementById('search')", "prop_3 auto")) / 1000,
            "search for nothing": tab.js(change.format("document.getElementById('search')", "")) / 1000,
            "one benchmark": tab.js(change.format("document.querySelector('[data-facet=benchmark]')", "2")) / 1000,
            "one row per instance": tab.js(change.format("document.getElementById('view')", "side")) / 1000,
        }
        assert not tab.errors, tab.errors
    return opened, sorts, others


def main() -> int:
    parser = Parser(description=__doc__.splitlines()[0], prog="report.py")
    parser.add_argument("--runs", type=positive, default=10_000, metavar="N", help="(default: 10000)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the campaign there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.out or Path(temporary)
        if not (folder / NAME).exists():
            fill(folder, given.runs)
        took = report(folder)
        page = folder / "report" / "index.html"
        say(f"{given.runs} runs: a page of {page.stat().st_size / 1e6:.1f} MB")
        rows, slowest = [("report", took)], 0.0
        if find_browser() is None:
            say("no Chromium here: the page is not measured")
        else:
            opened, sorts, others = measure_page(page)
            slowest = max(sorts.values())
            rows += [("open the page", opened), *((f"sort by {name}", s) for name, s in sorts.items()), *others.items()]
    print(table([("what", "seconds"), *((name, f"{seconds:.3f}") for name, seconds in rows)]))
    return int(took >= REPORT or slowest >= SORT)


if __name__ == "__main__":
    run(main)
