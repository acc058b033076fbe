"""Certificates in the hunt: the mutants of a seed, or searches with a planted fault; and failures, which are kept."""

from __future__ import annotations

import contextlib
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import netproof
from hunt.certificates import statements
from hunt.certificates.campaign import MUTANTS, Offer, judge, save, try_certificate
from hunt.generate import FAMILIES, fits
from hunt.loop import Tally
from hunt.network import to_onnx
from hunt.oracle import Oracle, TooManyPiecesError
from hunt.plants import PLANTS, planted
from hunt.question import Question
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.errors import NetproofError
from netproof.search import goals

SEARCHING, WRITING = 1.0, 0.3  # seconds for a search and its certificate, of a question that is false
METHODS = ("auto", "beta", "lirpa-gnn")
SHOWN_BY = {  # the family that a plant answers wrongly most often
    "f1_restored": "lost",
    "leaf_dropped": "lost",
    "rounding_zeroed": "cancelling",
    "stale_bound": "lost",
    "strictness_swapped": "edges",
}
OF_WITNESSES = ("f1_restored", "unreplayed_witness")


def try_seed(seed: int, out: Path, say: Callable[[str], Any], mutants: int = MUTANTS) -> Tally:
    """A certificate and its mutants."""
    tally = Tally(seeds=1)
    again = f"all of the seed: PYTHONPATH=tests python -m hunt --certificates --seed {seed}"
    try:
        tally.certificates = try_certificate(seed, _teller(tally, out / f"certificate{seed}", say, again), mutants)
    except Exception as error:  # of the campaign, netproof's writer or npcheck
        tally.faults["crash"] += 1
        say("".join(["crash: ", *traceback.format_exception(error)[-3:], again]))
    return tally


def try_planted(seed: int, plant: str, out: Path, say: Callable[[str], Any]) -> Tally:
    """Search for proofs of false statements with a fault, and see if npcheck accepts what is written of them."""
    tally = Tally(seeds=1)
    again = f"all of the seed: PYTHONPATH=tests python -m hunt --certificates --plant {plant} --seed {seed}"
    tell = _teller(tally, out / f"plant-{plant}{seed}", say, again)
    method = METHODS[seed // len(PLANTS) % len(METHODS)]
    for question, oracle in _false(seed, plant):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            tally.plants[plant, _outcome(Path(folder), plant, question, oracle, method, tell)] += 1
    return tally


def _false(seed: int, plant: str) -> Iterator[tuple[Question, Oracle]]:
    """A question of the family that shows the plant best, where it has a violation; and one that is false by little."""
    rng = np.random.default_rng([seed, 8])
    with contextlib.suppress(TooManyPiecesError):
        question, oracle = FAMILIES[SHOWN_BY.get(plant, "pockets")][1](rng)
        broken = fits(question, oracle) and any(oracle.answer(disjunct).violated for disjunct in question.disjuncts)
        if broken and question.has_text:
            yield question, oracle
    statement = statements.make(seed)
    by = list(statements.BY.values())[int(rng.integers(len(statements.BY)))]
    yield statements.falsified(statement, rng, by, last=True), statement.oracle


@contextlib.contextmanager
def _blind(plant: str) -> Iterator[None]:
    """A search that overlooks each violation it evaluates: else it finds most of a plant's faults itself."""
    real = goals.Decide.consider
    if plant not in OF_WITNESSES:
        goals.Decide.consider = lambda self, *args: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        goals.Decide.consider = real  # type: ignore[method-assign]


def _outcome(
    folder: Path, plant: str, question: Question, oracle: Oracle, method: str, tell: Callable[[Offer, str], None]
) -> str:
    model, spec = to_onnx(question.network).SerializeToString(), question.text().encode()
    paths = folder / "model.onnx", folder / "spec.vnnlib"
    for path, data in zip(paths, (model, spec), strict=True):
        path.write_bytes(data)
    request = Request(folder / "c.npcert", *paths, folder / "hints", WRITING, check=False, at_once=False)
    try:
        recording = Recording.of(request)
        with _blind(plant), planted(plant):
            verdict = netproof.verify(
                *map(str, paths),
                device="cpu",
                threads=1,
                timeout=SEARCHING,
                method=method,
                attack=False,
                certificate=recording,
            )
    except NetproofError:
        return "refused"
    except Exception:  # a fault may break netproof
        return "broke down"
    said = "wrong unsat" if verdict.proved else "contradiction" if "contradiction" in verdict.reason else "no proof"
    if not request.finish(request.subject()).written:
        return f"{said}, no certificate"
    offer = Offer(f"plant {plant}", "as it was written", model, spec, request.path.read_bytes(), True, question, oracle)
    answer, fault = judge(offer, folder)
    if fault:
        tell(offer, fault)
    return f"{said}, a certificate that npcheck calls {answer}"


def _teller(tally: Tally, folder: Path, say: Callable[[str], Any], again: str) -> Callable[[Offer, str], None]:
    def tell(offer: Offer, fault: str) -> None:
        tally.faults[fault.split(":")[0]] += 1
        kept = folder.with_name(f"{folder.name}-{tally.faults.total()}")
        save(kept, offer, fault, again)
        say(f"{fault} [{offer.statement}; {offer.body}]\nsaved in {kept}")

    return tell
