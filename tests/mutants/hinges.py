"""Maxima by their operands, sums by their ends, and stairs at their jumps."""

from __future__ import annotations

from mutants.mutant import Mutant

SUMS = ("bounds/test_bounds_sums.py",)
STEPS = ("operators/test_steps.py",)
HINGES = ("operators/test_hinges.py",)

MUTANTS = (
    Mutant(
        "sums-not-outward",
        "bounds/linear/sums.py",
        "    return Interval(torch.where(exact[0], lower, down(lower)), torch.where(exact[1], upper, up(upper)))",
        "    return Interval(lower, upper)",
        "a sum of ends is rounded",
        SUMS,
    ),
    Mutant(
        "sums-scaled-not-outward",
        "bounds/linear/sums.py",
        "        x = Interval(torch.where(exact, low, down(low)), torch.where(exact, high, up(high)))",
        "        x = Interval(low, high)",
        "a product with an end is rounded",
        SUMS,
    ),
    Mutant(
        "sums-radius",
        "bounds/linear/sums.py",
        "isinstance(op, Scale) and op.radius is None",
        "isinstance(op, Scale)",
        "a factor that is off by its radius is not its stored value",
        SUMS,
    ),
    Mutant(
        "sums-any-difference-is-a-maximum",
        "bounds/linear/sums.py",
        "    if node.op.signs == (1, 1) and second == b:",
        "    if node.op.signs == (1, 1):",
        "b + relu(a − c) is max(a, b) only where c is b",
        SUMS,
    ),
    Mutant(
        "stairs-open-end",
        "relax/steps.py",
        "        return (upper >= 0).to(upper.dtype)",
        "        return (upper > 0).to(upper.dtype)",
        "a step has its upper value at the jump itself",
        STEPS,
    ),
    Mutant(
        "stairs-round-first",
        "relax/steps.py",
        "torch.where(lower - below > 0.5, below + 1, below)",
        "torch.where(lower - below >= 0.5, below + 1, below)",
        "a tie at the lower end may be rounded down",
        STEPS,
    ),
    Mutant(
        "stairs-round-last",
        "relax/steps.py",
        "torch.where(above - upper > 0.5, above - 1, above)",
        "torch.where(above - upper >= 0.5, above - 1, above)",
        "a tie at the upper end may be rounded up",
        STEPS,
    ),
    Mutant(
        "stairs-steep-with-many-jumps",
        "relax/steps.py",
        "        low_rise = torch.where(one, _slope(h.upper - last), level)",
        "        low_rise = _slope(h.upper - last)",
        "the line through a jump's foot and the end is below g only where there is one jump",
        STEPS,
    ),
    Mutant(
        "stairs-line-not-outward",
        "relax/steps.py",
        "intercept + outward * slack)",
        "intercept)",
        "the intercept of a line through a point is rounded",
        equivalent="Mix charges eight roundings of the same sizes for the four that it makes",
    ),
    Mutant(
        "stairs-error",
        "model/nonlinear/steps.py",
        "        return torch.maximum(self.forward(high) - here, here - self.forward(low))",
        "        return torch.zeros_like(x)",
        "a value that is off by e may lie on the other side of a jump",
        STEPS,
    ),
    Mutant(
        "prelu-rounded-slope",
        "model/onnx/operators/hinges.py",
        "    rest = constant.subtract(constant.constant(1.0), slope)",
        "    rest = constant.constant(1.0 - slope.value)",
        "1 − s need not be a float",
        HINGES,
    ),
)
