"""Windows of coefficients: what of them is cut off, where they lie, and what they are charged."""

from __future__ import annotations

from mutants.mutant import Mutant

WINDOWS = ("bounds/test_windowed.py",)
FORWARD = ("bounds/test_zonotope.py",)

MUTANTS = (
    Mutant(
        "windows-reach-beyond-the-image",
        "bounds/windows/moves.py",
        "[Move(transposed(frame, op.kernel), partial(transposed_values, op.kernel), cut=True)]",
        "[Move(transposed(frame, op.kernel), partial(transposed_values, op.kernel))]",
        "what a kernel puts into the padding must not come back into the image",
        WINDOWS,
    ),
    Mutant(
        "windows-joined-in-place",
        "bounds/windows/frame.py",
        "        before = [self.shift[a] - larger.shift[a] for a in (0, 1)]\n",
        "        before = [0 for _ in (0, 1)]\n",
        "windows of two branches lie at different places",
        WINDOWS,
    ),
    Mutant(
        "windows-charged-by-their-sum",
        "bounds/windows/windowed.py",
        "        return self._total(self.values.abs(), weight)\n",
        "        return self._total(self.values, weight)\n",
        "roundings of coefficients of either sign add up",
        WINDOWS,
    ),
    Mutant(
        "windows-forget-the-remainder",
        "bounds/windows/moves.py",
        "(where.lead[0] + down, where.lead[1] + right)",
        "(where.lead[0], where.lead[1])",
        "a transposed convolution reads every form at its own remainder of the stride",
        WINDOWS,
    ),
    Mutant(
        "forward-rounding-free",
        "bounds/zonotope/steps.py",
        "    rounded = with_vanishing(enlarged(rounded))\n    error",
        "    rounded = torch.zeros_like(centre)\n    error",
        "an affine op rounds the centre and every generator",
        FORWARD,
    ),
    Mutant(
        "forward-forgets-the-error",
        "bounds/zonotope/steps.py",
        "    error = enlarged(absolute.forward(*(x.error[None] for x in inputs))[0])\n",
        "    error = torch.zeros_like(centre)\n",
        "what forms were off by before goes through the next op too",
        FORWARD,
    ),
    Mutant(
        "forward-lines-taken-as-parallel",
        "relax/parallel.py",
        "torch.where(tilt > 0, down(bottom - up(tilt, 4)), bottom)",
        "bottom",
        "a lower line of another slope lies lower by the difference of the slopes",
        FORWARD,
    ),
    Mutant(
        "forward-overwrites-what-others-read",
        "bounds/zonotope/forward.py",
        "        return not any(g.values.",
        "        return True or any(g.values.",
        "two nodes may hold the same numbers",
        FORWARD,
    ),
    Mutant(
        "forward-neurons-open-nothing",
        "bounds/zonotope/steps.py",
        "        groups[node.index] = generators_at(places, open_[places], node.shape)\n",
        "        pass\n",
        "an unstable neuron lies anywhere between its lines",
        FORWARD,
    ),
    Mutant(
        "forward-length-by-one-entry",
        "bounds/zonotope/norms.py",
        "    return enlarged(matrix_norm(rows) * math.sqrt(patches))\n",
        "    return matrix_norm(rows)\n",
        "an entry of an image is read by as many results as a kernel has taps",
        ("bounds/test_zonotope_errors.py",),
    ),
    Mutant(
        "forward-norm-of-few-entries",
        "bounds/zonotope/norms.py",
        "    return torch.maximum(matrix.sum(-1).max(), matrix.sum(-2).max())\n",
        "    return matrix.max()\n",
        "a norm is not the largest entry",
        ("bounds/test_zonotope_errors.py",),
    ),
    Mutant(
        "forward-point-cut-short",
        "bounds/zonotope/accurate.py",
        "    small = most.forward(x - point)[0] + least.forward(x)[0]\n",
        "    small = most.forward(x - point)[0]\n",
        "what is cut off the weights counts too",
        ("bounds/test_zonotope_errors.py",),
    ),
    Mutant(
        "forward-errors-vanish",
        "bounds/zonotope/zonotope.py",
        "torch.minimum(length, whole)) + UNDERFLOW\n",
        "torch.minimum(length, whole))\n",
        "the square of a small error is 0, and what multiplies that error later is not",
        FORWARD,
    ),
    Mutant(
        "forward-norm-vanishes",
        "bounds/zonotope/norms.py",
        "with_vanishing(enlarged(largest ** (0.5**SQUARINGS / 2.0) * scale))",
        "enlarged(largest ** (0.5**SQUARINGS / 2.0) * scale)",
        "below the normal numbers a norm is rounded by more than its share",
        ("bounds/test_zonotope_errors.py",),
    ),
    Mutant(
        "windows-put-by-the-library",
        "bounds/windows/kernels.py",
        "    if kernel.summed:\n        return in_chunks(lambda some: _put",
        "    if not kernel.summed:\n        return in_chunks(lambda some: _put",
        "γ_n does not hold for convolutions by Winograd or FFT",
        ("bounds/test_windowed.py::test_kernels_of_proofs_in_float32_are_sums",),
    ),
    Mutant(
        "windows-read-by-the-library",
        "bounds/windows/kernels.py",
        "    if kernel.summed:\n        _, height",
        "    if not kernel.summed:\n        _, height",
        "γ_n does not hold for convolutions by Winograd or FFT",
        ("bounds/test_windowed.py::test_kernels_of_proofs_in_float32_are_sums",),
    ),
)
