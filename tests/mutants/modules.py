"""Faults in how a torch module is read, and in how its graph is compared with it."""

from __future__ import annotations

from mutants.mutant import Mutant

READS = ("model/test_value_reads.py",)
LIKENESS = ("model/test_likeness.py",)
STATE = ("model/test_module_state.py",)
WATCHED = "model/origin/watched.py"
COMPARED = "model/origin/likeness.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "module-reads-caught",
        WATCHED,
        '            self._run.note(LOOKS)\n            raise LookedAt(f"{func} asks',
        '            raise LookedAt(f"{func} asks',
        "forward() may catch the exception of a read and go on",
        READS,
    ),
    Mutant(
        "module-memory-unwatched",
        WATCHED,
        "if memory not in self._own and memory not in self._filled:",
        "if False:",
        "memory that numpy shares, or that is kept, hands values out",
        READS,
    ),
    Mutant(
        "module-path-unwatched",
        WATCHED,
        "plain.steps.beside(hidden.steps) or ordinary.steps.beside(hidden.steps) or ordinary.difference(hidden)",
        "ordinary.difference(hidden)",
        "Python tells a tensor without values from another one",
        READS,
    ),
    Mutant(
        "module-nothing-fails",
        WATCHED,
        "for nth in range(hidden.may_fail):",
        "for nth in range(0):",
        "an exception that some values raise decides",
        READS,
    ),
    Mutant(
        "module-called-once",
        WATCHED,
        "if failing is None and not run.notes and is_changed():",
        "if False:",
        "what one call keeps of its input decides in the next",
        READS,
    ),
    Mutant(
        "module-points-left-out",
        COMPARED,
        "    if other:\n",
        "    if False:\n",
        "the module and its recording agree bit for bit, or within rounding",
        LIKENESS,
    ),
    Mutant(
        "module-operations-left-out",
        COMPARED,
        "        _same_operations(network, points[rows], [result.at(rows) for result in results], recorded[rows])\n",
        "        pass\n",
        "what torch's exporter writes is compared with what was recorded",
        LIKENESS,
    ),
    Mutant(
        "module-constant-answers-left-out",
        COMPARED,
        "            if result.is_output:\n",
        "            if False:\n",
        "an answer that no node computes is compared with the whole graph's",
        LIKENESS,
    ),
    Mutant(
        "module-infinite-error-excuses",
        COMPARED,
        "((gap <= allowed) & allowed.isfinite())",
        "(gap <= allowed)",
        "where no bound on rounding is finite, nothing is explained by it",
        LIKENESS,
    ),
    Mutant(
        "module-softplus-without-threshold",
        "model/origin/capture.py",
        "    return torch.where(x * beta > threshold, x, F.softplus(x, beta))",
        "    return F.softplus(x, beta)",
        "torch's exporter leaves the threshold out",
        ("model/test_likeness.py", "model/test_module_attributes.py"),
    ),
    Mutant(
        "module-answers-of-the-input-kept",
        WATCHED,
        "    ordinary.forget_answers_beside(hidden)\n",
        "",
        "what constants decide the size of may depend on the input",
        STATE,
    ),
    Mutant(
        "module-infinite-hides",
        COMPARED,
        "                if not any(node.index in infinite and node.index != index for node in sources):\n",
        "                if theirs.all_finite:\n",
        "an entry that is not finite excuses none",
        LIKENESS,
    ),
    Mutant(
        "module-counts-unseen",
        WATCHED,
        "        if is_changed() and not run.notes:\n",
        "        if False:\n",
        "a number that forward() counts with shows in no single call",
        LIKENESS,
    ),
    Mutant(
        "module-slope-of-float32",
        "model/origin/capture.py",
        "    elif node.target in _IN_FLOAT64 and _dtype(node) == torch.float64:\n",
        "    elif False:\n",
        "attributes of ONNX are float32",
        LIKENESS,
    ),
    Mutant(
        "module-not-compared-at-the-end",
        "run/conclude.py",
        "        self._compare_with_module()\n        if self._witness",
        "        if self._witness",
        "a lie shows where the search came nearest to a violation",
        LIKENESS,
    ),
    Mutant(
        "module-shape-guessed",
        "model/origin/torch_module.py",
        "(reversed(shapes) if stacked else shapes)",
        "reversed(shapes)",
        "where a module runs on both shapes, the caller's is it",
        ("model/test_call_shape.py",),
    ),
    Mutant(
        "module-left-changed",
        "model/origin/torch_module.py",
        "_as_it_is(self.module, self.example), fresh(self.module), _Running",
        "_as_it_is(self.module, self.example), _Running",
        "the caller's module is left as it was",
        LIKENESS,
    ),
    Mutant(
        "hard-swish-exact-when-large",
        "model/nonlinear/smooth/gates.py",
        "x.abs().clamp(min=1.0), torch.ones_like(x)",
        "torch.ones_like(x), torch.ones_like(x)",
        "a runtime may compute 6·x / 6 beyond 3",
        ("model/test_module_attributes.py",),
    ),
)
