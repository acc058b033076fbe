"""Train the graph network of `gnn` to imitate strong branching, and say how often its choice is among the best.

Labelled sub-domains come from the sets that are given and from none that is excluded (see gnn_data.py): first along
searches that BaBSR guides, then along searches of the network trained on those, so that it learns from where it goes.
The same seed on the same device and a `--domains` limit give the same weights; a time limit alone may not.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import options
import torch
from gnn_data import Generator, Labelled, generate, images, numbers
from instances import find_sets, read_folder
from tables import say, table
from torch import Tensor

from netproof.bounds.lirpa import TIGHT
from netproof.branching.babsr import Babsr
from netproof.branching.brancher import Brancher
from netproof.core.cpu import available_cpus
from netproof.errors import UsageError
from netproof.methods.device import resolve_device
from netproof.numerics import generator, use_strict_float32
from netproof.paper.rivals.gnn.net import BranchingNet, Links, load_weights, save_weights
from netproof.paper.rivals.gnn.rule import Gnn
from netproof.paper.rivals.gnn.worth import worth

EXCLUDED = ("oval_base_easy", "oval_base_med", "oval_base_hard", "oval_wide", "oval_deep")
MOST_REGRET = 3.0  # levels of a tree
NEAR = 0.95  # of the best one's worth is among the best
CLEAR = 0.02  # where the worths of all neurons tried differ by less, there is nothing to be right about


def targets(part: Labelled) -> tuple[Tensor, Tensor]:
    """(n, U): how much higher a tree is than the best one when a neuron is split, and which were tried."""
    real = part.tried >= 0
    height = torch.where(real, 1 / worth(part.gains), torch.inf)
    regret = (height - height.amin(1, keepdim=True)).clamp(max=MOST_REGRET)
    n, count = part.features.shape[:2]
    at = torch.where(real, part.tried, count)
    cost = torch.zeros(n, count + 1).scatter(1, at, torch.where(real, regret, 0.0))
    tried = torch.zeros(n, count + 1, dtype=torch.bool).scatter(1, at, real)
    return cost[:, :count], tried[:, :count]


def moved(links: Links, device: torch.device) -> Links:
    return Links(links.sizes, [t.to(device) for t in links.signed], [t.to(device) for t in links.size])


def train(
    net: BranchingNet,
    data: Sequence[Labelled],
    device: torch.device,
    random: torch.Generator,
    epochs: int,
    rate: float,
    limit: float,
) -> int:
    """The expected regret of choosing in proportion to exp(score); a step takes a few boxes.

    The step size falls until all epochs are done or `limit` (a time) is reached. Returns the epochs done.
    """
    ready = []
    for part in data:
        cost, tried = targets(part)
        ready.append((moved(part.links, device), part.features, cost.to(device), tried.to(device)))
    per_step = min(4, len(ready))
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-3)
    began = time.monotonic()
    for epoch in range(epochs):
        done = max(epoch / epochs, (time.monotonic() - began) / max(1e-9, limit - began))
        if done >= 1:
            return epoch
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, 10 * (done + 1 / epochs), 0.01 + 1.4 * (1 - done))
        for some in torch.randperm(len(ready), generator=random).split(per_step):
            loss = torch.zeros((), device=device)
            for i in some.tolist():
                links, told, cost, tried = ready[i]
                pick = torch.randperm(len(told), generator=random)[:16]
                at = pick.to(device)
                scores = net(links, told[pick].to(device).float())
                chance = torch.where(tried[at], scores, -torch.inf).softmax(1)
                loss = loss + (chance * cost[at]).sum() / len(pick)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimiser.step()
    return epochs


@torch.no_grad()
def accuracy(net: BranchingNet, data: Sequence[Labelled], device: torch.device) -> list[list[str]]:
    """By rule: how often its choice, of the neurons tried, is among the best, and what its choice is worth."""
    among: dict[str, list[Tensor]] = {"gnn": [], "babsr": [], "random": []}
    share: dict[str, list[Tensor]] = {name: [] for name in among}
    for part in data:
        real, value = part.tried >= 0, worth(part.gains)
        best = torch.where(real, value, 0.0).amax(1)
        scores = net.scores(moved(part.links, device), part.features.to(device).float()).cpu()
        mine = torch.where(real, scores.gather(1, part.tried.clamp(min=0)), -torch.inf).argmax(1, keepdim=True)
        theirs = (part.tried == part.babsr[:, None]).float().argmax(1, keepdim=True)
        relative = torch.where(real, value / best.clamp(min=1e-12)[:, None], 0.0)
        hit = (relative >= NEAR).float()
        any_one = real / real.sum(1, keepdim=True)
        clear = best - torch.where(real, value, torch.inf).amin(1) > CLEAR
        for of, every in ((relative, share), (hit, among)):
            every["gnn"].append(of.gather(1, mine)[clear, 0])
            every["babsr"].append(of.gather(1, theirs)[clear, 0])
            every["random"].append((of * any_one).sum(1)[clear])
    rows = [["rule", "among the best", "worth of its choice", "sub-domains"]]
    for name in among:
        hits, shares = torch.cat(among[name]), torch.cat(share[name])
        rows.append([name, f"{float(hits.mean()):.1%}", f"{float(shares.mean()):.3f}", str(len(hits))])
    return rows


def arguments() -> argparse.Namespace:
    parser = options.Parser(description=__doc__)
    parser.add_argument("folder", nargs="+", help="sets to learn from")
    parser.add_argument("--exclude", action="append", metavar="SET", help=f"(default: {', '.join(EXCLUDED)})")
    parser.add_argument("--first", type=options.positive, metavar="N", help="only the first N instances of each set")
    parser.add_argument("--out", type=options.writable, default=Path("gnn.npz"), metavar="FILE", help="the weights")
    parser.add_argument("--minutes", type=options.above_zero, default=4.0, help="for everything (default: 4)")
    parser.add_argument("--domains", type=options.positive, metavar="N", help="label no more sub-domains than this")
    parser.add_argument("--epochs", type=options.positive, default=200, help="(default: 200)")
    parser.add_argument("--width", type=options.positive, default=24, help="of an embedding (default: 24)")
    parser.add_argument("--data", type=options.writable, metavar="FILE", help="keep the labels there, or reuse them")
    parser.add_argument("--batch", type=options.positive, default=16, help="sub-domains split a round (default: 16)")
    parser.add_argument("--each", type=options.positive, default=3, help="labelled a round (default: 3)")
    parser.add_argument("--tried", type=options.positive, default=8, help="neurons a ranking names (default: 8)")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="(default: auto)")
    parser.add_argument("--threads", type=options.positive, metavar="N", help="CPU threads (default: what there is)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    return parser.parse_args()


class Course:
    """The whole of it: label, train, label along the trained network's searches, train again, measure."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self.device = resolve_device(given.device)
        torch.set_num_threads(available_cpus() if given.threads is None else given.threads)
        use_strict_float32()
        self._random = generator(given.seed)
        sets = [instance for folder in find_sets(given.folder) for instance in read_folder(folder)[: given.first]]
        others = find_sets(EXCLUDED if given.exclude is None else given.exclude)
        self._images = images(sets, numbers(i for folder in others for i in read_folder(folder)), every=4)
        self._began = time.monotonic()

    def time_at(self, share: float) -> float:
        return self._began + 60 * self._given.minutes * share

    def label(self, guide: Brancher, until: float, most: int | None) -> list[Labelled]:
        given = self._given
        how = Generator(
            self.device, self._random, TIGHT, guide, batch=given.batch, each=given.each, top=given.tried, spread=4
        )

        def enough(count: int) -> bool:
            return time.monotonic() > until or (most is not None and count >= most)

        return generate(self._images, how, enough, say)

    def fit(self, data: Sequence[Labelled], until: float) -> BranchingNet:
        torch.manual_seed(self._given.seed)
        net = BranchingNet(self._given.width).to(self.device)
        own = [part for part in data if not part.held_out]
        done = train(net, own, self.device, self._random, self._given.epochs, 3e-3, until)
        say(f"{done} epochs on {sum(map(len, own))} sub-domains of {len(own)} boxes")
        save_weights(net, self._given.out)
        return net

    def run(self) -> tuple[BranchingNet, list[Labelled]]:
        given, half = self._given, None if self._given.domains is None else self._given.domains // 2
        if given.data is not None and given.data.is_file():
            with torch.serialization.safe_globals([Labelled, Links]):
                data = torch.load(given.data, weights_only=True)
            return self.fit(data, math.inf), data
        data = self.label(Babsr(), self.time_at(0.4), half)
        if not any(not part.held_out for part in data):
            raise UsageError("no sub-domain was labelled in time", remedy="give more --minutes")
        self.fit(data, self.time_at(0.5))
        data += self.label(Gnn(given.out, weak=0.0), self.time_at(0.85), half)
        if given.data is not None:
            torch.save(data, given.data)
        return self.fit(data, self.time_at(1.0)), data


def main() -> int:
    given = arguments()
    course = Course(given)
    net, data = course.run()
    load_weights(given.out)
    size = given.out.stat().st_size / 1000
    test = [part for part in data if part.held_out]
    say(f"{given.out}: {size:.0f} kB")
    if not test:
        say("no held-out image was met: give more --minutes")
        return 0
    print(table(accuracy(net, test, course.device)))
    return 0


if __name__ == "__main__":
    options.run(main)
