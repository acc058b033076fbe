"""Nothing is lost: sub-domains and boxes that are pushed, popped, spilled, split, carried over, repacked."""

from __future__ import annotations

from mutants.mutant import Mutant

FRONTIER = ("search/test_frontier.py",)
DOMAINS = ("search/test_domains.py",)
BOX_FRONTIER = ("search/test_box_frontier.py",)
BOX_SPLIT = ("search/test_box_frontier.py", "search/test_input_split.py")
REPACK = ("search/test_refine.py",)
REFINE = ("search/test_refine.py",)
LEAF = ("search/test_leaf.py",)

MUTANTS = (
    Mutant(
        "push-loses-one",
        "search/frontier.py",
        "        self._count += added\n        if self._room",
        "        self._count += max(1, added - 1)\n        if self._room",
        "what is open stays open",
        FRONTIER,
    ),
    Mutant(
        "push-to-an-empty-frontier",
        "search/frontier.py",
        "self._store, self._count = domains.map(torch.clone), added  #",
        "self._store, self._count = domains.map(torch.clone), max(1, added - 1)  #",
        "what is open stays open",
        FRONTIER,
    ),
    Mutant(
        "push-forgets-the-host",
        "search/frontier.py",
        "        if self._count == 0:\n            self._store",
        "        if self._count == 0:\n            self._waiting = []\n            self._store",
        "what waits on the host is open",
        FRONTIER,
    ),
    Mutant(
        "push-over-another",
        "search/frontier.py",
        "            old[self._count : self._count + added] = new\n",
        "            old[self._count - 1 : self._count + added - 1] = new\n",
        "what is pushed overwrites nothing",
        FRONTIER,
    ),
    Mutant(
        "grow-drops",
        "search/frontier.py",
        "        self._store = self.domains.map(lambda t: torch.cat([t, t.new_empty(room, *t.shape[1:])]))\n",
        "        self._store = self.domains.map(lambda t: t.new_zeros(room + len(t), *t.shape[1:]))\n",
        "a frontier that grows keeps what it has",
        FRONTIER,
    ),
    Mutant(
        "pop-forgets-the-host",
        "search/frontier.py",
        "        if self._waiting and self._count < n:\n            self._fetch()\n",
        "",
        "what waits on the host has its turn",
        ("search/test_frontier.py::test_what_waits_has_its_turn",),  # others would never end
    ),
    Mutant(
        "length-forgets-the-host",
        "search/frontier.py",
        "        return self._count + self.waiting\n",
        "        return self._count\n",
        "a frontier is empty when nothing waits either",
        FRONTIER,
    ),
    Mutant(
        "bound-forgets-the-host",
        "search/frontier.py",
        "        return [self.domains, *self._waiting]\n",
        "        return [self.domains]\n",
        "the global bound is that of all open sub-domains",
        FRONTIER,
    ),
    Mutant(
        "prune-another-target",
        "search/lp_turns.py",
        "(domains.target == target) & domains.contained_in(",
        "domains.contained_in(",
        "a proof is of one target",
        FRONTIER,
    ),
    Mutant(
        "remove-the-wrong-ones",
        "search/frontier.py",
        "            t[holes] = t[movers]\n        self._count = left\n\n    def _spill",
        "            pass\n        self._count = left\n\n    def _spill",
        "only what was taken is removed",
        FRONTIER,
    ),
    Mutant(
        "spill-drops",
        "search/frontier.py",
        "        self._waiting.append(self._store.select(index).map(lambda t: t.cpu()))\n",
        "        self._waiting = [self._store.select(index).map(lambda t: t.cpu())]\n",
        "what waits on the host is open",
        FRONTIER,
    ),
    Mutant(
        "fetch-drops",
        "search/frontier.py",
        "self._store, self._count = concatenate([self.domains, back]), self._count + len(back)\n",
        "self._store, self._count = back, len(back)\n",
        "what comes back joins what is there",
        FRONTIER,
    ),
    # --- sub-domains ---
    Mutant(
        "contained-by-any-sign",
        "bounds/domains.py",
        "splits.sign()[fixed]).all(1)",
        "splits.sign()[fixed]).any(1)",
        "a sub-domain inside another has all its signs",
        DOMAINS,
    ),
    Mutant(
        "split-one-half",
        "bounds/domains.py",
        "lower=lower.scatter_(1, at, torch.where(negative, low, low.maximum(point)))",
        "lower=lower.scatter_(1, at, low.maximum(point))",
        "the half h <= 0 reaches down to the parent's bound",
        DOMAINS,
    ),
    Mutant(
        "split-open-halves",
        "bounds/domains.py",
        "torch.where(negative, high.minimum(point), high))",
        "torch.where(negative, high.minimum(point - 1e-6), high))",
        "the halves are closed",
        DOMAINS,
    ),
    Mutant(
        "split-drops-a-child",
        "bounds/domains.py",
        "    wanted = ~((neurons < 0)[:, None] & (sides > 0)).any(2)  # (domain, 2^k)\n",
        "    wanted = ~((neurons <= 0)[:, None] & (sides > 0)).any(2)  # (domain, 2^k)\n",
        "children cover their parent",
        DOMAINS,
    ),
    Mutant(
        "parent-of-another",
        "bounds/domains.py",
        "    return torch.where(domains.splits.abs() == depth,",
        "    return torch.where(domains.splits.abs() >= depth - 1,",
        "a parent lacks the last decision only",
        DOMAINS,
    ),
    Mutant(
        "concatenate-drops",
        "core/batch.py",
        "zip(*(p.tensors() for p in parts), strict=True)",
        "zip(*(p.tensors() for p in parts[1:]), strict=True)",
        "batches that come together lose nothing",
        DOMAINS,
    ),
    Mutant(
        "put-in-another-place",
        "core/batch.py",
        "old.index_copy(0, index, new) for old",
        "old.index_copy(0, index.flip(0), new) for old",
        "what is put back is put where it was taken",
        DOMAINS,
    ),
    # --- boxes ---
    Mutant(
        "box-halves-leave-a-gap",
        "branching/inputs.py",
        "            torch.cat([upper.scatter(1, axis, middle), upper]),\n",
        "            torch.cat([upper.scatter(1, axis, low / 2 + middle / 2), upper]),\n",
        "halves fill their parent",
        BOX_FRONTIER,
    ),
    # --- a tighter root, neurons by branch and bound, leaves ---
    Mutant(
        "repack-drops-either-half",
        "bounds/neurons/transfer.py",
        "    against = (domains.splits.sign() * known)[:, gone] < 0\n",
        "    against = (domains.splits.sign() * known)[:, gone] != 0\n",
        "a decision that is implied drops nothing",
        REPACK,
    ),
    Mutant(
        "repack-other-places",
        "bounds/neurons/transfer.py",
        "before.start + torch.searchsorted(before.index, layer.index)",
        "before.start + torch.arange(layer.count)",
        "a neuron keeps its decisions and its bounds",
        REPACK,
    ),
    Mutant(
        "repack-signs-swapped",
        "bounds/neurons/transfer.py",
        "        parts.append((low >= point).short() - (high <= point).short())\n",
        "        parts.append((high <= point).short() - (low >= point).short())\n",
        "only what contradicts a known sign is dropped",
        REPACK,
    ),
    Mutant(
        "neuron-least-of-all",
        "search/root_tightening.py",
        "            leaves = concatenate([leaves.select(rest), children])\n",
        "            leaves = children\n",
        "a neuron's bound is the least over all its sub-domains",
        REFINE,
    ),
    Mutant(
        "neuron-best-of-all",
        "search/root_tightening.py",
        'torch.full_like(least, torch.inf).scatter_reduce(0, leaves.target, leaves.bound, "amin")',
        'torch.full_like(least, -torch.inf).scatter_reduce(0, leaves.target, leaves.bound, "amax")',
        "a neuron's bound is the least over all its sub-domains",
        REFINE,
    ),
    Mutant(
        "leaf-bounds-of-another",
        "search/leaf.py",
        "for sides in zip(lower, upper, strict=True)]\n",
        "for sides in zip(lower.flip(0), upper.flip(0), strict=True)]\n",
        "a leaf's LP has the leaf's bounds",
        LEAF,
    ),
    Mutant(
        "leaf-failed-is-proved",
        "search/leaf.py",
        "    better = bound > domains.bound\n",
        "    bound = bound.nan_to_num(neginf=1.0)\n    better = bound > domains.bound\n",
        "an LP that failed proves nothing",
        LEAF,
    ),
    Mutant(
        "babsr-lp-root-by-other-slopes",
        "paper/rivals/babsr_lp.py",
        "deadline, parallel=self.parallel)",
        "deadline)",
        "the original bounds the root's neurons by parallel lines",
        ("reproduce/test_babsr_counts.py",),
    ),
)
