"""Train the bundled digit networks and write the demo's data: ONNX files, VNN-LIB specs, images, a manifest.

    python examples/train_digits.py [--out DIR]

needs scikit-learn and takes about a minute on two cores. The seeds are fixed, but another machine or version
of torch may round differently: the files in the package are the ones that the expected verdicts belong to.

To change what the demo asks, change INSTANCES. The script stops when a witness search contradicts an expected
verdict; that an instance expected to be `unsat` really is can only be shown by `netproof verify`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

DATA = Path(__file__).resolve().parents[1] / "src" / "netproof" / "demo" / "data"
TEST_SIZE = 360  # the last fifth of the 1797 digits, other writers than the first
SHAPE = (1, 1, 8, 8)


# The networks: images come in as (batch, 1, 8, 8) with pixels in [0, 1], scores of ten digits come out.


def fully_connected() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 10))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


class Residual(nn.Module):
    """One residual block between a strided convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, stride=2, padding=1)
        self.first = nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.second = nn.Conv2d(6, 6, 3, padding=1)
        self.head = nn.Linear(6 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        y = F.relu(self.norm(self.first(x)))
        x = F.relu(x + self.second(y))
        return self.head(x.flatten(1))


@dataclass(frozen=True)
class Recipe:
    make: Callable[[], nn.Module]
    eps: float  # radius of the adversarial training
    epochs: int
    seed: int
    symbolic_batch: bool  # both forms occur in the wild, so both are bundled


RECIPES = {
    "digits-fc": Recipe(fully_connected, eps=0.08, epochs=60, seed=1, symbolic_batch=True),
    "digits-conv": Recipe(convolutional, eps=0.08, epochs=60, seed=2, symbolic_batch=False),
    "digits-res": Recipe(Residual, eps=0.08, epochs=60, seed=3, symbolic_batch=True),
}


# What the demo asks of them.


@dataclass(frozen=True)
class Instance:
    """One row of the manifest. `image` is the index of a digit in the test set.

    Without `rivals` a violation is any other digit scoring at least as much as the true one; with `rivals`,
    all of those scoring so at once. `also` is a second image of the same digit, with a box of its own.
    """

    name: str
    network: str
    image: int
    eps: float
    expected: str
    rivals: tuple[int, ...] = ()
    also: int | None = None


INSTANCES = (
    Instance("fc-3-holds", "digits-fc", 1, eps=0.1, expected="unsat"),
    Instance("fc-4-needs-splits", "digits-fc", 2, eps=0.18, expected="unsat"),
    Instance("fc-5-breaks", "digits-fc", 3, eps=0.1, expected="sat"),
    # 6 alone or 9 alone can overtake this 0, but never both at once: a conjunction of two rows.
    Instance("fc-0-never-both", "digits-fc", 155, eps=0.1, expected="unsat", rivals=(6, 9)),
    Instance("conv-3-holds", "digits-conv", 1, eps=0.1, expected="unsat"),
    Instance("conv-8-breaks", "digits-conv", 6, eps=0.15, expected="sat"),
    Instance("conv-3-two-images", "digits-conv", 1, eps=0.08, expected="unsat", also=23),
    Instance("res-4-holds", "digits-res", 2, eps=0.08, expected="unsat"),
    Instance("res-6-breaks", "digits-res", 36, eps=0.08, expected="sat"),
)


def split() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, then test ones. Test images have 8-bit pixels, as their PNGs do."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)  # (1797, 1, 8, 8)
    labels = torch.tensor(digits.target)
    test = torch.round(images[-TEST_SIZE:] * 255) / 255
    return images[:-TEST_SIZE], labels[:-TEST_SIZE], test, labels[-TEST_SIZE:]


def perturb(net: nn.Module, x: Tensor, label: Tensor, eps: float, steps: int = 4) -> Tensor:
    """The projected-gradient image of each x: (batch, 1, 8, 8) within eps and [0, 1], with a high loss."""
    lower, upper = (x - eps).clamp(min=0), (x + eps).clamp(max=1)
    adv = lower + (upper - lower) * torch.rand_like(x)
    for _ in range(steps):
        adv.requires_grad_(True)
        (gradient,) = torch.autograd.grad(F.cross_entropy(net(adv), label), adv)
        step = 2 * eps / steps * gradient.sign()
        adv = torch.minimum(torch.maximum(adv.detach() + step, lower), upper)
    return adv


def train(recipe: Recipe, images: Tensor, labels: Tensor) -> nn.Module:
    """Half of the loss on clean images, half on perturbed ones; the radius grows over the first half."""
    torch.manual_seed(recipe.seed)
    net = recipe.make()
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.epochs)
    for epoch in range(recipe.epochs):
        eps = recipe.eps * min(1.0, 2 * (epoch + 1) / recipe.epochs)
        for batch in torch.randperm(len(images)).split(64):
            x, label = images[batch], labels[batch]
            net.eval()
            adv = perturb(net, x, label, eps)
            net.train()
            loss = F.cross_entropy(net(x), label) + F.cross_entropy(net(adv), label)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    return net.eval()


def export(net: nn.Module, recipe: Recipe, path: Path) -> None:
    """A small ONNX file. PRESERVE keeps the batch normalisation as a node of its own."""
    axes = {"image": {0: "batch"}, "scores": {0: "batch"}} if recipe.symbolic_batch else None
    torch.onnx.export(
        net,
        (torch.zeros(SHAPE),),
        path,
        input_names=["image"],
        output_names=["scores"],
        dynamic_axes=axes,
        opset_version=13,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        dynamo=False,
    )


def box(image: Tensor, eps: float) -> list[str]:
    """The assertions of |x - image| <= eps within [0, 1]; image: (1, 8, 8)."""
    lines = []
    for i, pixel in enumerate(image.flatten().tolist()):
        lines.append(f"(<= X_{i} {min(1.0, pixel + eps):.6f})")
        lines.append(f"(>= X_{i} {max(0.0, pixel - eps):.6f})")
    return lines


def violation(label: int, rivals: Sequence[int]) -> str:
    """Every rival at once, or any digit but the true one where none are named."""
    if rivals:
        return "(and " + " ".join(f"(>= Y_{j} Y_{label})" for j in rivals) + ")"
    others = (j for j in range(10) if j != label)
    return "(or " + " ".join(f"(and (>= Y_{j} Y_{label}))" for j in others) + ")"


def vnnlib(instance: Instance, images: Tensor, label: int) -> str:
    """The specification: it describes a violation, so `unsat` means that the network keeps its answer."""
    out = [f"; {describe(instance, label)}", ""]
    out += [f"(declare-const X_{i} Real)" for i in range(64)]
    out += [f"(declare-const Y_{j} Real)" for j in range(10)]
    out.append("")
    if instance.also is None:
        out += [f"(assert {line})" for line in box(images[instance.image], instance.eps)]
        out.append(f"(assert {violation(label, instance.rivals)})")
    else:
        both = (box(images[k], instance.eps) for k in (instance.image, instance.also))
        cases = ["(and\n  " + "\n  ".join([*lines, violation(label, instance.rivals)]) + ")" for lines in both]
        out.append("(assert (or\n" + "\n".join(cases) + "))")
    return "\n".join(out) + "\n"


def describe(instance: Instance, label: int) -> str:
    """The question in plain words."""
    where = f"no pixel moves by more than {instance.eps:g}"
    if instance.rivals:
        return f"{' and '.join(map(str, instance.rivals))} never both reach the score of {label} while {where}"
    if instance.also is not None:
        return f"both images are read as {label} while {where}"
    return f"the image is read as {label} while {where}"


def violated(net: nn.Module, instance: Instance, x: Tensor, label: int, steps: int = 200) -> bool:
    """Whether projected gradient descent finds a violation near x: (1, 8, 8). Finding none proves nothing."""
    torch.manual_seed(0)
    lower, upper = (x - instance.eps).clamp(min=0), (x + instance.eps).clamp(max=1)
    points = lower + (upper - lower) * torch.rand(100, *x.shape)
    for step in range(steps):
        points.requires_grad_(True)
        scores = net(points)  # (100, 10)
        margins = scores[:, label, None] - scores
        if instance.rivals:
            worst = margins[:, list(instance.rivals)].amax(1)
        else:
            worst = margins[:, [j for j in range(10) if j != label]].amin(1)
        if bool((worst < -1e-4).any()):
            return True
        (gradient,) = torch.autograd.grad(worst.sum(), points)
        move = instance.eps * (1 - step / steps) / 4 * gradient.sign()
        points = torch.minimum(torch.maximum(points.detach() - move, lower), upper)
    return False


def save_image(image: Tensor, name: str, folder: Path) -> str:
    """The 8x8 PNG that the instance is about, and a large one to look at; image: (1, 8, 8)."""
    pixels = np.rint(image[0].numpy() * 255).astype(np.uint8)
    small = Image.fromarray(pixels)
    small.save(folder / f"{name}.png")
    small.resize((160, 160), Image.Resampling.NEAREST).save(folder / f"{name}-large.png")
    return f"images/{name}.png"


def write_instances(nets: dict[str, nn.Module], images: Tensor, labels: Tensor, out: Path) -> None:
    rows = []
    for instance in INSTANCES:
        label = int(labels[instance.image])
        shown = [instance.image] + ([] if instance.also is None else [instance.also])
        found = any(violated(nets[instance.network], instance, images[k], label) for k in shown)
        if found != (instance.expected == "sat"):
            raise SystemExit(f"{instance.name}: expected {instance.expected}, but found a violation: {found}")
        paths = [save_image(images[k], f"digit-{label}-{k:03d}", out / "images") for k in shown]
        spec = f"vnnlib/{instance.name}.vnnlib"
        (out / spec).write_text(vnnlib(instance, images, label), encoding="utf-8")
        rows.append(
            {
                "name": instance.name,
                "onnx": f"onnx/{instance.network}.onnx",
                "vnnlib": spec,
                "image": paths[0],
                "label": label,
                "eps": f"{instance.eps:g}",
                "expected": instance.expected,
                "question": describe(instance, label),
            }
        )
    with (out / "instances.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the bundled digit networks and write the demo's data.")
    parser.add_argument("--out", type=Path, default=DATA, help="default: the package's own data folder")
    out: Path = parser.parse_args().out
    for folder in ("onnx", "vnnlib", "images"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    if out == DATA:  # only the package's own folder is swept of files that are no longer written
        for old in (path for path in out.rglob("*") if path.is_file()):
            old.unlink()

    torch.set_num_threads(1)  # the nets are tiny, and one thread sums in one order
    images, labels, test_images, test_labels = split()
    nets = {}
    for name, recipe in RECIPES.items():
        nets[name] = net = train(recipe, images, labels)
        path = out / "onnx" / f"{name}.onnx"
        export(net, recipe, path)
        right = float((net(test_images).argmax(1) == test_labels).float().mean())
        print(f"{path.name}: test accuracy {right:.1%}, {path.stat().st_size / 1000:.0f} kB")
    write_instances(nets, test_images, test_labels, out)
    print(f"{len(INSTANCES)} instances in {out}")


if __name__ == "__main__":
    main()
