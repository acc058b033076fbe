"""Neurons bounded again below the root, and bounds by prices: what else the condensed network is used for."""

from __future__ import annotations

from mutants.mutant import Mutant

CHARGES = ("bounds/test_condensed_charges.py",)
DECOMPOSITION = ("bounds/test_condensed_charges.py", "bounds/test_decomposition.py")
REBOUND = ("bounds/test_rebounded_neurons.py",)

MUTANTS = (
    # --- neurons bounded again ---
    Mutant(
        "rebound-lower-nearest",
        "bounds/neurons/rebound.py",
        "fmax(float32_down(value[:count]))",
        "fmax(value[:count].float())",
        "a neuron's bounds are kept in float32, rounded outward",
        REBOUND,
    ),
    Mutant(
        "rebound-upper-nearest",
        "bounds/neurons/rebound.py",
        "fmin(float32_up(-value[count:]))",
        "fmin((-value[count:]).float())",
        "a neuron's bounds are kept in float32, rounded outward",
        REBOUND,
    ),
    Mutant(
        "rebound-of-another",
        "bounds/neurons/rebound.py",
        "domains.known.upto(layer.start, owner[both])",
        "domains.known.upto(layer.start, owner[both].flip(0))",
        "a neuron is bounded under its own sub-domain's splits",
        REBOUND,
    ),
    Mutant(
        "rebound-error",
        "bounds/neurons/rebound.py",
        "torch.cat([forms, -forms]), torch.cat([error, error])",
        "torch.cat([forms, -forms]), 0 * torch.cat([error, error])",
        "a neuron's own form may be off",
        REBOUND,
    ),
    Mutant(
        "again-lower-nearest",
        "paper/rivals/rebound.py",
        "    return float32_down(sides[0]), float32_up(-sides[1])\n",
        "    return sides[0].float(), float32_up(-sides[1])\n",
        "a neuron's bounds are kept in float32, rounded outward",
        REBOUND,
    ),
    Mutant(
        "again-upper-nearest",
        "paper/rivals/rebound.py",
        "    return float32_down(sides[0]), float32_up(-sides[1])\n",
        "    return float32_down(sides[0]), (-sides[1]).float()\n",
        "a neuron's bounds are kept in float32, rounded outward",
        REBOUND,
    ),
    Mutant(
        "again-error",
        "paper/rivals/rebound.py",
        "torch.cat([forms, -forms]), torch.cat([error, error]), known)",
        "torch.cat([forms, -forms]), 0 * torch.cat([error, error]), known)",
        "a neuron's own form may be off",
        REBOUND,
    ),
    # --- prices ---
    Mutant(
        "prices-rounding-of-the-terms",
        "paper/rivals/decomposition.py",
        "lost = terms.sum(1) - enlarged(with_vanishing(rounding(size, net.count + 8), net.count))",
        "lost = terms.sum(1)",
        "the neurons' terms are products, and their sum is rounded",
        DECOMPOSITION,
    ),
    Mutant(
        "prices-underflow",
        "paper/rivals/decomposition.py",
        "enlarged(with_vanishing(rounding(size, net.count + 8), net.count))",
        "enlarged(rounding(size, net.count + 8))",
        "a product below 2^-1074 is lost whole",
        equivalent="the pass through the trunk takes off as much, and so does `dual.proved`",
    ),
    Mutant(
        "prices-no-kink",
        "paper/rivals/decomposition.py",
        "    terms = torch.minimum(torch.minimum(low, high), hull.kink)\n",
        "    terms = torch.minimum(low, high)\n",
        "the triangle has a corner at 0",
        DECOMPOSITION,
    ),
)
