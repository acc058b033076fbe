"""Rows that read inputs: what is proved of them, and what their witnesses satisfy."""

from __future__ import annotations

from mutants.mutant import Mutant

READING = ("problem/test_vnnlib.py", "problem/test_formula_agrees.py")
ROWS = ("problem/test_rows_of_inputs.py",)

MUTANTS = (
    Mutant(
        "row-without-its-inputs",
        "problem/reduce.py",
        "                coef[t, j, column[i]] = _coefficient(c, source)\n",
        "                coef[t, j, column[i]] = 0.0\n",
        "a row is proved as it is written, its inputs too",
        ROWS,
    ),
    Mutant(
        "row-of-another-input",
        "problem/reduce.py",
        "    column = {j: outputs + k for k, j in enumerate(read)}\n",
        "    column = {j: outputs + k for k, j in enumerate(reversed(read))}\n",
        "a column is the input that the row reads",
        ROWS,
    ),
    Mutant(
        "graph-with-another-input",
        "problem/extend.py",
        "    index = Index(0, torch.tensor(read, dtype=torch.int64), graph.input.size)\n",
        "    index = Index(0, torch.arange(len(read)), graph.input.size)\n",
        "the inputs after the output are those that rows read",
        ROWS,
    ),
    Mutant(
        "inputs-of-a-row-not-read",
        "problem/vnnlib/reader.py",
        "            return Row(outputs, -constant, strict, inputs)\n",
        "            return Row(outputs, -constant, strict)\n",
        "a constraint is read with its inputs",
        READING,
    ),
    Mutant(
        "witness-outside-its-rows-of-inputs",
        "problem/property.py",
        "        return sum((c * x[j] for j, c in self.inputs.items()), of_outputs)\n",
        "        return of_outputs\n",
        "a witness satisfies the constraints on inputs",
        ROWS,
    ),
    Mutant(
        "gap-of-rounded-inputs",
        "problem/witness.py",
        "    exact = _as_written(x, disjunct)",
        "    exact = _as_written(x.astype(np.float16), disjunct)",
        "inputs are exact where the real network is said to violate",
        ROWS,
    ),
)
