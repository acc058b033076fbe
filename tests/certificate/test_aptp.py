"""Certificates as APTP: read back by rules of its reader, the leaves cover all signs, and none can hold."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import highspy
import numpy as np
import pytest

import netproof
from netproof.certificate.aptp import export
from netproof.certificate.record import Recording
from netproof.certificate.request import Request
from netproof.errors import UsageError
from netproof.problem.property import Disjunct, Property, Row
from netproof.problem.vnnlib.writer import version_1
from npcheck.network import Affine, Network, Relu
from npcheck.onnx_file import read_network
from support.asking import dense, gaussian, sharpened, whole_box
from support.random_graphs import Question

CLOSE = Fraction(1, 128)


@dataclass
class Proof:
    """An APTP file."""

    box: dict[int, list[float]] = field(default_factory=dict)
    outputs: set[int] = field(default_factory=set)
    row: tuple[str, str, str] | None = None
    declared: set[int] = field(default_factory=set)
    leaves: list[list[int]] = field(default_factory=list)  # +i where neuron i is active, −i where not


def read_aptp(path: Path) -> Proof:
    """Read what APTPchecker reads; what it passes over in silence is an error here."""
    proof = Proof()
    lines = (line.split(";")[0] for line in path.read_text().splitlines())
    text = re.sub(r"([()]) ", r"\1", " ".join(" ".join(lines).split()))
    for statement in _statements(text):
        if match := re.fullmatch(r"\(declare-const ([XY])_(\d+) Real\)", statement):
            if match[1] == "X":
                proof.box.setdefault(int(match[2]), [-np.inf, np.inf])
            else:
                proof.outputs.add(int(match[2]))
        elif match := re.fullmatch(r"\(declare-pwl N_(\d+) ReLU\)", statement):
            proof.declared.add(int(match[1]))
        elif match := re.fullmatch(r"\(assert \((<=|>=) X_(\d+) (\S+)\)\)", statement):
            proof.box.setdefault(int(match[2]), [-np.inf, np.inf])[match[1] == "<="] = float(match[3])
        elif match := re.fullmatch(r"\(assert \((<=|>=) (Y_\d+) (\S+)\)\)", statement):
            assert proof.row is None
            proof.row = match[1], match[2], match[3]
        else:
            literal = r"\((?:<|>=) N_\d+ 0\)"
            assert re.fullmatch(rf"\(assert \(or (?:\(and (?:{literal})+\))+\)\)", statement), statement
            for clause in re.findall(rf"\(and ((?:{literal})+)\)", statement):
                literals = re.findall(r"\((<|>=) N_(\d+) 0\)", clause)
                proof.leaves.append([int(name) if sign == ">=" else -int(name) for sign, name in literals])
    return proof


def _statements(text: str) -> list[str]:
    found, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and character == ")":
            found.append(text[begin : at + 1])
            begin = at + 1
    assert depth == 0
    assert not text[begin:].strip()
    return found


def covered(proof: Proof) -> bool:
    names = sorted(proof.declared)
    assert {abs(name) for leaf in proof.leaves for name in leaf} == set(names)
    for signs in itertools.product((1, -1), repeat=len(names)):
        whole = {sign * name for sign, name in zip(signs, names, strict=True)}
        if not any(whole.issuperset(leaf) for leaf in proof.leaves):
            return False
    return True


def is_possible(network: Network, proof: Proof, leaf: list[int]) -> bool:
    """Whether an input of the box has these signs and the row: a MILP, with all neurons counted from the model."""
    solver = highspy.Highs()
    solver.silent()
    infinity = highspy.kHighsInf
    numbers, variables = itertools.count(1), {}
    low = np.array([[proof.box[at][0] for at in sorted(proof.box)]])
    high = np.array([[proof.box[at][1] for at in sorted(proof.box)]])
    ranges = {0: (low[0], high[0])}
    variables[0] = [solver.addVariable(a, b) for a, b in zip(low[0], high[0], strict=True)]
    for place, node in enumerate(network.nodes[1:], start=1):
        sources = [variables[at] for at in node.inputs]
        lows, highs = (np.concatenate([ranges[at][side] for at in node.inputs]) for side in (0, 1))
        if isinstance(node.op, Affine):
            sizes = np.cumsum([len(source) for source in sources])[:-1]
            units = np.eye(sum(len(source) for source in sources))
            matrix = node.op.forward(np.split(units, sizes, axis=1)).T
            bias = np.zeros(node.size) if node.op.bias is None else node.op.bias
            joined = [variable for source in sources for variable in source]
            variables[place] = [solver.addVariable(-infinity, infinity) for _ in range(node.size)]
            for at, (weights, constant) in enumerate(zip(matrix, bias, strict=True)):
                terms = (float(w) * v for w, v in zip(weights, joined, strict=True))
                solver.addConstr(variables[place][at] - sum(terms, 0.0 * joined[0]) == float(constant))
            centre, radius = (lows + highs) / 2, (highs - lows) / 2
            middle, reach = matrix @ centre + bias, np.abs(matrix) @ radius
            ranges[place] = middle - reach, middle + reach
        else:
            assert isinstance(node.op, Relu)
            variables[place] = []
            for at, h in enumerate(sources[0]):
                number, most = next(numbers), float(max(abs(lows[at]), abs(highs[at]))) + 1.0
                z, active = solver.addVariable(0.0, infinity), solver.addBinary()
                solver.addConstr(z - h >= 0)
                solver.addConstr(z - h + most * active <= most)
                solver.addConstr(z - most * active <= 0)
                if number in leaf or -number in leaf:
                    solver.addConstr(1.0 * active == float(number in leaf))
                variables[place].append(z)
            ranges[place] = np.maximum(lows, 0.0), np.maximum(highs, 0.0)
    assert proof.row is not None
    sign, left, right = proof.row
    y = variables[len(network.nodes) - 1]
    difference = y[int(left[2:])] - (y[int(right[2:])] if right.startswith("Y") else float(right))
    solver.minimize(difference if sign == "<=" else -difference)
    status = solver.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    return status == highspy.HighsModelStatus.kOptimal and solver.getObjectiveValue() <= 0.0


def certified(question: Question, folder: Path, **engine: str) -> tuple[Path, Path, Path]:
    model, spec = question.network.save(folder / "m.onnx"), folder / "p.vnnlib"
    spec.write_text(version_1(question.property, question.property.disjuncts[0].box))
    request = Request(folder / "c.npcert", model, spec, folder / "hints", 60.0, check=False, at_once=False)
    recording = Recording.of(request)
    assert netproof.verify(str(model), str(spec), device="cpu", threads=1, certificate=recording, **engine).proved
    assert request.finish(request.subject()).written
    return request.path, model, spec


def of_one_row_each(seed: int) -> Question:
    """Two disjuncts with little room: an output from below, and the other from above."""
    network, box = gaussian(seed, [3, 5, 4, 2]), whole_box([-1, -1, -1], [1, 1, 1])
    rows = Row({0: Fraction(1)}, Fraction(0)), Row({1: Fraction(-2)}, Fraction(0))
    disjuncts = tuple(Disjunct(box, (row,)) for row in rows)
    made = sharpened(Question(network, Property(disjuncts, 3, 2, "made here")), [CLOSE])
    short = (
        replace(row, rhs=Fraction(int(row.rhs * 10**6) - 1, 10**6)) for d in made.property.disjuncts for row in d.rows
    )
    disjuncts = tuple(Disjunct(box, (row,)) for row in short)
    return replace(made, property=replace(made.property, disjuncts=disjuncts))


@pytest.mark.parametrize("seed", range(2))
def test_the_leaves_cover_all_signs_and_none_can_hold(seed: int, tmp_path: Path) -> None:
    question = of_one_row_each(seed)
    files = certified(question, tmp_path, method="beta")
    exported = export(*files, tmp_path / "out")
    assert exported.files
    network = read_network(files[1].read_bytes())
    for file in exported.files:
        proof = read_aptp(file)
        box = question.property.disjuncts[0].box
        assert [tuple(map(Fraction, proof.box[at])) for at in sorted(proof.box)] == list(
            zip(box.lower, box.upper, strict=True)
        )
        assert proof.outputs == set(range(network.nodes[-1].size))
        assert covered(proof)
        assert not any(is_possible(network, proof, leaf) for leaf in proof.leaves)
        assert is_possible(network, proof, []) is False
        short = Proof(proof.box, proof.outputs, proof.row, proof.declared, proof.leaves[1:])
        assert not covered(short)


@pytest.mark.parametrize(("factor", "said"), [(2, ("<=", "Y_0", "Y_1")), (-2, ("<=", "Y_1", "Y_0"))])
def test_two_outputs_are_compared(factor: int, said: tuple[str, str, str], tmp_path: Path) -> None:
    """relu(x + y) + relu(x − y) − relu(x + y/2) + 1/64 is above 0."""
    sides = [[1.0, 1.0, -1.0], [0.0, 0.0, 0.0]]
    last = (sides, [1 / 64, 0.0]) if factor > 0 else (sides[::-1], [0.0, 1 / 64])
    network = dense(([[1.0, 1.0], [1.0, -1.0], [1.0, 0.5]], [0.0] * 3), last)
    row = Row({0: Fraction(factor), 1: Fraction(-factor)}, Fraction(0))
    question = Question(network, Property((Disjunct(whole_box([-1, -1], [1, 1]), (row,)),), 2, 2, "made here"))
    files = certified(question, tmp_path, method="beta")
    (file,) = export(*files, tmp_path / "out").files
    assert file == tmp_path / "out" / "p-0.aptp"
    proof = read_aptp(file)
    assert proof.row == said
    assert covered(proof)
    assert proof.declared <= {1, 2, 3}
    assert not any(is_possible(read_network(files[1].read_bytes()), proof, leaf) for leaf in proof.leaves)


def test_a_leaf_of_a_false_statement_can_hold(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    question = of_one_row_each(0)
    files = certified(question, tmp_path, method="beta")
    (file, *_) = export(*files, tmp_path / "out").files
    proof = read_aptp(file)
    assert proof.row is not None
    sign, left, right = proof.row
    assert not right.startswith("Y")
    proof.row = sign, left, str(float(right) + (1 if sign == "<=" else -1) * 2 * float(CLOSE))
    assert any(is_possible(read_network(files[1].read_bytes()), proof, leaf) for leaf in proof.leaves)


def test_what_aptp_cannot_say_is_said_in_a_line(tmp_path: Path) -> None:
    question = of_one_row_each(1)
    folder = tmp_path / "boxes"
    folder.mkdir()
    by_boxes = certified(question, folder, method="auto")
    with pytest.raises(UsageError, match="disjuncts 0, 1 with splits of inputs, and APTP splits ReLUs alone"):
        export(*by_boxes, tmp_path / "out")
    with pytest.raises(UsageError, match="npcheck does not accept it: "):
        export(by_boxes[0], files_of_another(tmp_path), by_boxes[2], tmp_path / "out")
    network = dense(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0], [0.0, 1.0]], [1.0, 0.0]))
    rows = {
        "disjunct 0 with 2 rows, and APTP has one": (
            Row({0: Fraction(1)}, Fraction(0)),
            Row({1: Fraction(1)}, Fraction(0)),
        ),
        "without a split, and APTP needs one": (Row({0: Fraction(1)}, Fraction(0)),),
        "neither of one output and a number nor Y_i <= Y_j": (Row({0: Fraction(1), 1: Fraction(1)}, Fraction(0)),),
    }
    for place, (why, some) in enumerate(rows.items()):
        disjunct = Disjunct(whole_box([-1], [1]), some)
        folder = tmp_path / str(place)
        folder.mkdir()
        files = certified(Question(network, Property((disjunct,), 1, 2, "made here")), folder, method="beta")
        with pytest.raises(UsageError, match=why):
            export(*files, tmp_path / "out")
    folder = tmp_path / "ball"
    folder.mkdir()
    files = certified(of_one_row_each(1), folder, method="beta")
    ball = "(assert (<= (+ (* X_0 X_0) (* X_1 X_1) (* X_2 X_2)) 1.0))"
    files[2].write_text(f"{files[2].read_text()}{ball}\n")
    request = Request(files[0], files[1], files[2], folder / "hints", 60.0, check=False, at_once=False)
    assert request.finish(request.subject()).written
    with pytest.raises(UsageError, match="with a ball, and APTP has boxes"):
        export(*files, tmp_path / "out")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def files_of_another(folder: Path) -> Path:
    return of_one_row_each(2).network.save(folder / "other.onnx")


def test_ties_are_not_said(tmp_path: Path) -> None:
    """relu(x) − relu(x) < 0 never holds; APTP would say <= 0, which does."""
    twins = dense(([[1.0], [1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))
    weaker = Disjunct(whole_box([-1], [1]), (Row({0: Fraction(1)}, Fraction(-1, 1000), strict=True),))
    question = Question(twins, Property((weaker,), 1, 1, "made here"))
    files = certified(question, tmp_path, method="beta")
    tie = replace(weaker, rows=(replace(weaker.rows[0], rhs=Fraction(0)),))
    files[2].write_text(version_1(replace(question.property, disjuncts=(tie,)), tie.box))
    request = Request(*files, tmp_path / "hints", 60.0, check=False, at_once=False)
    assert request.finish(request.subject()).written
    with pytest.raises(UsageError, match="with a strict row that may hold by a tie, and APTP has none"):
        export(*files, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
