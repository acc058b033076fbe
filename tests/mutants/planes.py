"""Planes above the first layer: what they are above, and what is charged for them."""

from __future__ import annotations

from mutants.mutant import Mutant

CHARGES = ("bounds/test_plane_charges.py",)
PLANES = ("bounds/test_planes.py",)
READS = "bounds/planes/reads.py"
FIRST = "bounds/planes/first.py"
SHARED = "bounds/planes/planes.py"
NET = "bounds/condensed/network.py"
SINGLE = "bounds/condensed/single.py"

MUTANTS = (
    Mutant(
        "planes-reads-error",
        FIRST,
        "parts.append((-below, -done.lowered_const()))",
        "parts.append((-below, -done.const))",
        "what a neuron reads is rounded on its way to the input",
        PLANES,
    ),
    Mutant(
        "planes-ball",
        FIRST,
        "if not proof.layers or proof.region.ball is not None:",
        "if not proof.layers:",
        "heights are the most over a box",
        PLANES,
    ),
    Mutant(
        "planes-falling",
        FIRST,
        "if not isinstance(relaxation, HingeRelaxation) or relaxation.leak < 0:",
        "if not isinstance(relaxation, HingeRelaxation):",
        "of h only an upper bound is known, so a line in it must not fall",
        PLANES,
    ),
    Mutant(
        "planes-steep-side",
        READS,
        "torch.maximum(self.height_on(slope, 1.0), self.height_on(slope, self.leak))",
        "self.height_on(slope, self.leak)",
        "a plane is above both lines of g",
        PLANES,
    ),
    Mutant(
        "planes-flat-side",
        READS,
        "torch.maximum(self.height_on(slope, 1.0), self.height_on(slope, self.leak))",
        "self.height_on(slope, 1.0)",
        "a plane is above both lines of g",
        PLANES,
    ),
    Mutant(
        "planes-height-rounding",
        READS,
        "        return value + with_vanishing(enlarged(cost))\n",
        "        return with_vanishing(value)\n",
        "the most over a box is a rounded sum",
        CHARGES,
    ),
    Mutant(
        "planes-height-underflow",
        READS,
        "        return value + with_vanishing(enlarged(cost))\n",
        "        return value + enlarged(cost)\n",
        "products of weights and radii may vanish",
        CHARGES,
    ),
    Mutant(
        "planes-centre-rounding",
        READS,
        "moved.sum(1) + with_vanishing(enlarged(rounding(size, self.width + 8)))",
        "with_vanishing(moved.sum(1))",
        "what a neuron is at the centre is a rounded sum",
        CHARGES,
    ),
    Mutant(
        "planes-centre-underflow",
        READS,
        "moved.sum(1) + with_vanishing(enlarged(rounding(size, self.width + 8)))",
        "moved.sum(1) + enlarged(rounding(size, self.width + 8))",
        "products of weights and the centre may vanish",
        CHARGES,
    ),
    Mutant(
        "planes-sum-over-neurons",
        SHARED,
        "rounding(size, reads.count + 8, self.slope.dtype) + rounding(",
        "rounding(",
        "what planes give an input is a sum over neurons",
        ("bounds/test_plane_charges.py::test_the_sum_of_planes_over_neurons_is_charged",),
    ),
    Mutant(
        "planes-sum-in-float32",
        SHARED,
        "rounding(size, reads.count + 8, self.slope.dtype)",
        "rounding(size, reads.count + 8)",
        "what planes give an input is added up in float32 there",
        ("bounds/test_plane_charges.py::test_the_sum_of_planes_over_neurons_is_charged_in_float32",),
    ),
    Mutant(
        "planes-sum-over-inputs",
        SHARED,
        " + rounding(size, reads.inputs + 8)\n",
        "\n",
        "the least over the box is a sum over inputs",
        ("bounds/test_plane_charges.py::test_the_least_of_planes_over_the_box_is_charged",),
    ),
    Mutant(
        "planes-sum-of-heights",
        SHARED,
        "enlarged(sums + rounding(self.height.abs(), reads.count + 16))",
        "enlarged(sums)",
        "the heights of all planes are a rounded sum",
        ("bounds/test_plane_charges.py::test_the_sum_of_heights_is_charged",),
    ),
    Mutant(
        "planes-chord",
        SHARED,
        "(q * self.above.charge).sum(1) + kept\n",
        "(q * self.above.charge).sum(1)\n",
        "what stays with a chord is a difference of rounded products",
        ("bounds/test_plane_charges.py::test_what_stays_with_a_chord_is_charged",),
    ),
    Mutant(
        "planes-chord-in-float32",
        SHARED,
        "few_roundings(largest, 8, carried.dtype)",
        "few_roundings(largest, 8)",
        "in float32 the products are rounded to that",
        ("bounds/test_plane_charges.py::test_what_stays_with_a_chord_is_charged_in_float32",),
    ),
    Mutant(
        "planes-added",
        NET,
        "cost + few_roundings(own.abs() @ reach, 4) + vanishing(",
        "cost + vanishing(",
        "what x has already is rounded as planes are added to it",
        CHARGES,
    ),
    Mutant(
        "planes-underflow",
        NET,
        " + vanishing(reach.sum())\n",
        "\n",
        "products of coefficients and slopes may vanish, where x is large",
        CHARGES,
    ),
    Mutant(
        "planes-added-in-float32",
        SINGLE,
        "at_input.double().abs().flatten(1) @ self.region.radius.flatten(), 4, SINGLE\n",
        "at_input.double().abs().flatten(1) @ self.region.radius.flatten(), 4\n",
        "what x has already is rounded to float32 as planes are added to it",
        CHARGES,
    ),
    Mutant(
        "planes-rest",
        NET,
        "            lift.reads.add_(falls, -carried)\n",
        "            pass\n",
        "what went to planes no longer loses a chord's height: this loses it twice",
        PLANES,
    ),
    Mutant(
        "planes-rest-in-float32",
        SINGLE,
        "            lift.reads.add_(taken, -carried.double() * lift.reads.of(lines.upper_intercept))\n",
        "",
        "what went to planes no longer loses a chord's height: this loses it twice",
        PLANES,
    ),
    Mutant(
        "planes-of-a-line",
        SHARED,
        "bent = (reads.of(lines.upper_intercept) > 0).to(t.dtype)",
        "bent = (reads.of(lines.upper_intercept) > -1).to(t.dtype)",
        "where a neuron is split its own line is better than any plane, and is what the search counts on",
        PLANES,
    ),
)
