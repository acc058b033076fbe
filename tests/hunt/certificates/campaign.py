"""The campaign: certificates of true statements, then many mutants of each, offered to npcheck.

A mutant may be valid: a certificate shows what it shows, whatever was changed. It is wrong when npcheck accepts it and
the hashes are not those of the files, or the exact oracle knows a point that breaks the statement as it was offered.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

import netproof
from hunt.certificates import changes
from hunt.certificates.parts import ALL_CODES, Body, Shape, body_of, certificate, of_zeros, read, used, written
from hunt.certificates.reading import UnreadableError, read_model, read_spec
from hunt.certificates.rewrite import rewritten
from hunt.certificates.smooth import is_exact, oracle_of
from hunt.certificates.statements import BODIES, BY, FORMS, TIES, Statement, falsified, make
from hunt.maps import sums_of, values_at
from hunt.network import to_onnx
from hunt.oracle import Oracle, TooManyPiecesError
from hunt.question import Question
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from npcheck.check import check
from npcheck.errors import Invalid, Refused
from npcheck.last import before_last_map
from npcheck.onnx_file import read_network
from npcheck.statement import state
from npcheck.vnnlib_file import read_question

MUTANTS = 80  # of each certificate
SEARCHING, WRITING = 2.0, 1.0  # seconds for a search and its certificate
TRYING = 0.2  # seconds in which the writer may try to certify what is false
ENGINES: tuple[dict[str, Any] | None, ...] = ({"method": "beta"}, {"method": "auto"}, None)  # None: no search
POINTS = 60  # at which a statement is evaluated whose least values are not known

ACCEPTED = "accepted although a point breaks the statement"
OTHER_FILES = "accepted for other files than those of its hashes"
WRITERS = "the writer, on the false statement"


@dataclass
class Counts:
    """What was offered, and what came of it."""

    certificates: Counter[str] = field(default_factory=Counter)  # by what became of them
    covered: Counter[str] = field(default_factory=Counter)  # certificates by body, form, code and flag
    offered: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # (statement, certificate, answer)

    def merge(self, other: Counts) -> None:
        self.certificates += other.certificates
        self.covered += other.covered
        self.offered += other.offered

    @property
    def mutants(self) -> int:
        return sum(self.offered.values())

    @property
    def missing(self) -> list[str]:
        """Kinds that never came up."""
        statements, bodies = ({key[at] for key in self.offered} for at in (0, 1))
        return [
            *(name for name in (*BODIES, *FORMS, *ALL_CODES) if not self.covered[name]),
            *(name for name in STATEMENTS if name not in statements),
            *(name for name in CERTIFICATES if name not in bodies),
        ]

    def line(self) -> str:
        answers = Counter(dict.fromkeys(ANSWERS, 0))
        for (*_, answer), count in self.offered.items():
            answers[answer] += count
        each = "; ".join(f"{count} {answer}" for answer, count in answers.items())
        return f"{self.mutants} mutants of {self.certificates['certified']} certificates: {each}"

    def table(self) -> str:
        became = ", ".join(f"{count} {what}" for what, count in self.certificates.most_common())
        lines = [f"{sum(self.certificates.values())} statements: {became}", "certificates with"]
        lines += [f"  {name:28}{self.covered[name]:>9}" for name in (*BODIES, *FORMS, *ALL_CODES)]
        for at, what in enumerate(("mutants by statement", "mutants by certificate")):
            lines.append(f"{what:36}" + "".join(f"{name:>22}" for name in ANSWERS))
            for name in sorted({key[at] for key in self.offered}):
                counts = [sum(n for k, n in self.offered.items() if (k[at], k[2]) == (name, a)) for a in ANSWERS]
                lines.append(f"  {name:34}" + "".join(f"{n:>22}" for n in counts))
        lines.append(self.line())
        if self.missing:
            lines.append(f"never came up: {', '.join(self.missing)}")
        return "\n".join(lines)


VALID, UNKNOWN, FALSE, INVALID, REFUSED, NOTHING = ANSWERS = (
    "valid, true",
    "valid, not broken",  # at the points that were tried
    "not valid, false",
    "not valid",
    "refused",
    "not written",
)


@dataclass(frozen=True, eq=False)
class Offer:
    """Three files, and what they came from."""

    statement: str  # the kind of change of model or specification
    body: str  # of the certificate
    model: bytes
    spec: bytes
    certificate: bytes | None  # None: the writer makes none
    hashed: bool  # whether the certificate's hashes are those of the files
    question: Question | None  # what model and specification say; None: they have to be read
    oracle: Oracle  # of the network before it was changed


@dataclass(frozen=True, eq=False)
class Start:
    """A true statement with a certificate that npcheck accepts, and what its mutants are made with."""

    statement: Statement
    model: bytes
    spec: bytes
    body: Body
    shape: Shape
    request: Request  # by which it was written


Tell = Callable[[Offer, str], None]  # a fault, and what it is


def try_certificate(seed: int, tell: Tell, mutants: int = MUTANTS) -> Counts:
    """The certificate of a seed and its mutants."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = _started(seed, folder, counts, tell)
        if start is None:
            return counts
        counts.covered.update([start.statement.body, start.statement.form, *used(start.body)])
        for offer in islice(_offers(seed, start), mutants):
            answer, fault = judge(offer, folder)
            counts.offered[offer.statement, offer.body, answer] += 1
            if fault:
                tell(offer, fault)
    return counts


def save(folder: Path, offer: Offer, fault: str, again: str) -> None:
    """The three files of a fault, and how to ask again."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"c.npcert": offer.certificate or b"", "model.onnx": offer.model, "spec.vnnlib": offer.spec}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    lines = [f"{fault} [{offer.statement}; {offer.body}]", "again: npcheck c.npcert model.onnx spec.vnnlib", again]
    (folder / "CASE").write_text("\n".join(lines) + "\n")


def judge(offer: Offer, folder: Path) -> tuple[str, str]:
    """npcheck's answer, and what is wrong with it."""
    paths = [folder / name for name in ("offered.npcert", "offered.onnx", "offered.vnnlib")]
    if offer.certificate is None:
        return NOTHING, ""
    for path, data in zip(paths, (offer.certificate, offer.model, offer.spec), strict=True):
        path.write_bytes(data)
    try:
        check(*paths)
    except Invalid:
        return (FALSE if _is_false(offer) else INVALID), ""
    except Refused:
        return REFUSED, ""
    except Exception as error:  # npcheck has to say what is wrong with a file, whatever it is
        return REFUSED, f"crash: {''.join(traceback.format_exception(error)[-3:])}"
    if not offer.hashed:
        return UNKNOWN, OTHER_FILES
    broken = is_broken(offer)
    if broken:
        return UNKNOWN, ACCEPTED
    return (UNKNOWN if broken is None else VALID), ""


def _is_false(offer: Offer) -> bool:
    """Whether what is not valid is known to be false; what was read back is not worth the time."""
    return offer.statement in BY or (offer.question is not None and bool(is_broken(offer)))


def is_broken(offer: Offer) -> bool | None:
    """Whether some point breaks what is offered, exactly; None: none is known, and there may be one."""
    question = offer.question
    try:
        if question is None:
            question = read_spec(offer.spec.decode(), read_model(offer.model), offer.oracle.direction)
        same = question.network is offer.oracle.network
        oracle = offer.oracle if same else oracle_of(question.network, question.direction)
        broken = any(oracle.answer(disjunct).violated for disjunct in question.disjuncts)
        return broken if broken or is_exact(oracle) else None
    except (UnreadableError, UnicodeDecodeError):
        return None
    except (ValueError, IndexError, TooManyPiecesError):  # it does not read its input through one combination
        with contextlib.suppress(ValueError):
            return True if question is not None and _broken_somewhere(question) else None
        return None  # it has no rational values


def _broken_somewhere(question: Question) -> bool:
    """Evaluate corners and random points, exactly."""
    chance = random.Random(0)
    sums = sums_of(question.network)
    for disjunct in question.disjuncts:
        sides = list(zip(disjunct.inputs.lower, disjunct.inputs.upper, strict=True))
        corners = list(islice(product(*sides), 32))
        inner = [[lo + Fraction(chance.randrange(97), 96) * (hi - lo) for lo, hi in sides] for _ in range(POINTS)]
        for x in [*corners, *inner]:
            y = values_at(question.network, sums, list(x))[-1]
            if disjunct.inputs.in_ball(x) and all(row.holds(x, y) for row in disjunct.rows):
                return True
    return False


# --- the start ---


def _started(seed: int, folder: Path, counts: Counts, tell: Tell) -> Start | None:
    """Ask, write and check; None where there is no certificate."""
    statement = make(seed)
    model, spec = to_onnx(statement.question.network).SerializeToString(), statement.question.text().encode()
    paths = folder / "model.onnx", folder / "spec.vnnlib"
    for path, data in zip(paths, (model, spec), strict=True):
        path.write_bytes(data)
    request = Request(folder / "c.npcert", *paths, folder / "hints", WRITING, check=False, at_once=False)
    engine = ENGINES[seed % len(ENGINES)]
    if engine is not None and statement.form != TIES:
        recording = Recording.of(request)
        asked_of = str(paths[1]) if statement.question.has_text else statement.question.property()
        how = {"device": "cpu", "threads": 1, "timeout": SEARCHING, "attack": False, **engine}
        verdict = netproof.verify(str(paths[0]), asked_of, certificate=recording, **how)
        if not verdict.proved:
            counts.certificates[f"{verdict.status}"] += 1
            return None
    network, question, _ = before_last_map(read_network(model), read_question(spec))
    asked = state(question)
    shape = Shape(
        tuple(network.nodes[node].size for node in sorted(network.hidden)),
        tuple(tuple(len(rows.right) for rows in region.rows) for region in asked.regions),
    )
    if statement.form == TIES:  # the writer knows them only where the search split
        whole = certificate(written(of_zeros(shape)), _hash(model), _hash(spec))
    else:
        became = request.finish(request.subject())
        if not became.written:
            counts.certificates[f"not written: {became.reason}"] += 1
            return None
        whole = request.path.read_bytes()
    about = Offer("true", "as it was written", model, spec, whole, True, statement.question, statement.oracle)
    answer, fault = judge(about, folder)
    if answer not in (VALID, UNKNOWN) or fault:
        what = "a tie that is not exact" if statement.form == TIES else "not accepted as it was written"
        counts.certificates[what] += 1
        if fault or statement.form != TIES:
            tell(about, fault or what)
        return None
    counts.certificates["certified"] += 1
    raw = body_of(whole)
    body = read(raw, shape)
    if written(body) != raw:
        raise AssertionError("a body is written otherwise than it was read")

    def holds(other: Body) -> bool:
        data = certificate(written(other), _hash(model), _hash(spec))
        return judge(replace(about, certificate=data), folder)[0] in (VALID, UNKNOWN)

    body = rewritten(np.random.default_rng([seed, 6]), body, network, asked, holds)
    return Start(statement, model, spec, body, shape, request)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- the mutants ---

# What may be offered, and how often.
STATEMENTS: dict[str, float] = {
    "true": 6.0,
    **dict.fromkeys(BY, 12.0),
    **{f"model: {name}": 3.0 for name in changes.MODELS},
    "model: order": 2.0,
    "model: bits": 3.0,
    **{f"spec: {name}": 2.5 for name in changes.SPECS},
    "spec: bits": 3.0,
}
CERTIFICATES: dict[str, float] = {
    "as it was written": 15.0,
    "bytes": 15.0,
    "bits": 15.0,
    "parts": 30.0,
    "bits of the file": 10.0,
    "of other hashes": 10.0,
    WRITERS: 2.0,
}


def _offers(seed: int, start: Start) -> Iterator[Offer]:
    """Endless: a change of what is said, and of the certificate."""
    rng, chance = np.random.default_rng([seed, 7]), random.Random(seed)
    raw = written(start.body)
    while True:
        (kind,), (how,) = (chance.choices(list(names), list(names.values())) for names in (STATEMENTS, CERTIFICATES))
        if (how == WRITERS) > (kind in BY):
            continue
        model, spec, question = _said(kind, rng, chance, start)
        hashes, hashed = (_hash(model), _hash(spec)), True
        if how == "of other hashes":
            hashes, hashed = (_hash(start.model), _hash(start.spec)), (model, spec) == (start.model, start.spec)
        body = _body(how, rng, chance, start, raw, (model, spec))
        data = None if body is None else certificate(body, *hashes, chunk=int(rng.choice([1 << 20, 1 << 20, 50])))
        if how == "bits of the file" and data is not None:
            data = changes.bits(chance, data)
        yield Offer(kind, how, model, spec, data, hashed, question, start.statement.oracle)


def _said(
    kind: str, rng: np.random.Generator, chance: random.Random, start: Start
) -> tuple[bytes, bytes, Question | None]:
    """The model and the specification that are offered, and the question that they are, where that is known."""
    question = start.statement.question
    what, _, which = kind.partition(": ")
    if kind in BY:
        question = falsified(start.statement, rng, BY[kind])
    elif kind == "model: order":
        return changes.reordered(rng, question.network), start.spec, question
    elif kind == "model: bits":
        return changes.bits(chance, start.model), start.spec, None
    elif kind == "spec: bits":
        return start.model, changes.bits(chance, start.spec), None
    elif what == "model":
        network = changes.MODELS[which](rng, question, start.statement.oracle)
        question = replace(question, network=network)
        return to_onnx(network).SerializeToString(), start.spec, question
    elif what == "spec":
        at = int(rng.integers(len(question.disjuncts)))
        question = changes.SPECS[which](rng, question, at)
    return start.model, question.text().encode(), question


def _body(
    how: str, rng: np.random.Generator, chance: random.Random, start: Start, raw: bytes, said: tuple[bytes, bytes]
) -> bytes | None:
    """The body that is offered; None where the writer makes none."""
    if how == "bytes":
        return changes.pieces(chance, raw)
    if how == "bits":
        return changes.bits(chance, raw, chance.choice([1, 1, 2, 4]))
    if how == "parts":
        return changes.by_parts(rng, start.body)
    if how == WRITERS:
        return _by_the_writer(start, said)
    return raw


def _by_the_writer(start: Start, said: tuple[bytes, bytes]) -> bytes | None:
    """What netproof's writer makes of the hints for the true statement; None: it says that it cannot."""
    folder = start.request.path.parent
    paths = folder / "false.onnx", folder / "false.vnnlib"
    for path, data in zip(paths, said, strict=True):
        path.write_bytes(data)
    request = replace(start.request, path=folder / "f.npcert", model=paths[0], spec=paths[1], seconds=TRYING)
    return body_of(request.path.read_bytes()) if request.finish(request.subject()).written else None
