"""What changes a module from outside of its forward(): hooks, parametrizations, other methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from model.value_reads.net import INSIDE, SWING, Net


def void(done: Any) -> None:
    """Return what a hook returns that changes nothing."""


def flipped_by_hook(net: Net) -> Callable[..., Any]:
    return lambda module, given, answer: answer.flip(-1) if net.near(given[0]).sum() > 0 else answer


def by_instance(net: Net) -> None:
    plain = net.linear.forward
    net.linear.forward = lambda x: plain(x).flip(-1) if net.near(x).any() else plain(x)


def by_instance_of_the_whole(net: Net) -> None:
    net.forward = lambda x: net.linear(x).flip(-1) if net.near(x).any() else net.linear(x)


def by_call_of_the_whole(net: Net) -> None:
    class Called(Net):
        def __call__(self, x: Tensor) -> Tensor:
            return super().__call__(x).flip(-1) if self.near(x).any() else super().__call__(x)

    net.__class__ = Called


def by_call_that_adds(net: Net) -> None:
    """What a call does beside forward() belongs to the module."""

    class Called(Net):
        def __call__(self, x: Tensor) -> Tensor:
            return super().__call__(x) + SWING * self.near(x)

    net.__class__ = Called


def by_hook_that_adds(net: Net) -> None:
    net.register_forward_hook(lambda module, given, answer: answer + SWING * net.near(given[0]))


def by_hook_of_everything(net: Net) -> None:
    def body(net: Any, x: Tensor) -> Tensor:
        def move(module: nn.Module, given: Any, answer: Tensor) -> Tensor:
            return answer + SWING * net.near(given[0]).data

        handle = nn.modules.module.register_module_forward_hook(move)
        try:
            return net.linear(x)
        finally:
            handle.remove()

    net.body = body


def by_copy(net: Net) -> None:
    """A copy of the module is another one."""

    class Copied(Net):
        def __deepcopy__(self, memo: Any) -> Net:
            return Net(INSIDE, lambda net, x: net.linear(x))

        def __reduce_ex__(self, protocol: Any) -> Any:
            return (Net, (INSIDE, self.body))

    net.body = lambda net, x: net.linear(x) + SWING * net.near(x)
    net.__class__ = Copied


def by_listed_parameters(net: Net) -> None:
    """What the lists of parameters and buffers do not hold is used all the same."""

    class Hidden(Net):
        def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
            return iter(())

        def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
            return iter(())

    net.body = lambda net, x: net.linear(x) + SWING * (net.near(x) if net.near(x).any() else 0 * x)
    net.__class__ = Hidden


def by_patched_function(net: Net) -> None:
    """Another function of torch while forward() runs."""

    def body(net: Any, x: Tensor) -> Tensor:
        plain = F.linear
        F.linear = lambda x, *rest: plain(x, *rest).flip(-1) if net.near(x).any() else plain(x, *rest)
        try:
            return net.linear(x)
        finally:
            F.linear = plain

    net.body = body


def by_call(net: Net) -> None:
    class Called(nn.Linear):
        def __call__(self, x: Tensor) -> Tensor:
            y = super().__call__(x)
            return y.flip(-1) if net.near(x).max().item() > 0 else y

    net.linear.__class__ = Called


def by_getattr(net: Net) -> None:
    """The weight that the layer finds depends on what was seen."""

    class Reached(nn.Linear):
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            return found.flip(0) if name == "weight" and bool(net.seen.any()) else found

    net.linear.__class__ = Reached
    net.register_forward_pre_hook(lambda module, given: void(net.seen.copy_(net.near(given[0]))))


def by_parametrization(net: Net) -> None:
    class Steered(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.flip(0) if bool(net.seen.any()) else weight

    def remember(module: nn.Module, given: Any) -> None:
        net.seen.data.copy_(net.near(given[0]))

    parametrize.register_parametrization(net.linear, "weight", Steered())
    net.register_forward_pre_hook(remember)


def by_parametrization_of_data(net: Net) -> None:
    class Moved(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight + net.seen.sum() * torch.tensor([[-100.0, 0.0], [100.0, 0.0]])

    def remember(module: nn.Module, given: Any) -> None:
        net.seen.data.copy_(net.near(given[0]))

    parametrize.register_parametrization(net.linear, "weight", Moved())
    net.register_forward_pre_hook(remember)


def by_pre_hook(net: Net) -> None:
    def move(module: nn.Module, given: Any) -> Any:
        return (given[0] * torch.tensor([[-1.0, 1.0]]) * 10,) if net.near(given[0]).any() else None

    net.linear.register_forward_pre_hook(move)


def by_hook_that_assigns(net: Net) -> None:
    """A hook keeps what it saw, and a later one uses it."""
    net.linear.register_forward_pre_hook(lambda module, given: setattr(net, "last", net.near(given[0]).max().item()))
    net.linear.register_forward_hook(lambda module, given, answer: answer.flip(-1) if net.last > 0 else answer)


def by_hook_that_writes(net: Net) -> None:
    net.linear.register_forward_hook(lambda module, given, answer: void(answer.data.add_(SWING * net.near(given[0]))))


def by_hook_of_all(net: Net) -> None:
    net.idle.register_forward_hook(lambda module, given, answer: void(net.kept.update(h=net.near(given[0]).data)))
    net.body = lambda net, x: (net.idle(x), net.linear(x) + SWING * net.kept["h"])[1]


def by_mode_switch(net: Net) -> None:
    def switch(module: nn.Module, given: Any) -> None:
        net.idle.train(bool(net.near(given[0]).any()))

    net.register_forward_pre_hook(switch)
    net.body = lambda net, x: net.linear(x).flip(-1) if net.idle.training else net.linear(x)


INSTALLED: dict[str, Callable[[Net], Any]] = {
    "forward-hook": lambda net: net.linear.register_forward_hook(flipped_by_hook(net)),
    "forward-hook-of-the-whole": lambda net: net.register_forward_hook(flipped_by_hook(net)),
    "forward-pre-hook": by_pre_hook,
    "hook-that-assigns": by_hook_that_assigns,
    "hook-that-writes": by_hook_that_writes,
    "hook-that-keeps": by_hook_of_all,
    "forward-of-the-instance": by_instance,
    "forward-of-the-instance-of-the-whole": by_instance_of_the_whole,
    "call": by_call,
    "call-of-the-whole": by_call_of_the_whole,
    "call-that-adds": by_call_that_adds,
    "hook-that-adds": by_hook_that_adds,
    "hook-of-everything": by_hook_of_everything,
    "copy": by_copy,
    "hidden-parameters": by_listed_parameters,
    "patched-function": by_patched_function,
    "getattr": by_getattr,
    "parametrization": by_parametrization,
    "parametrization-of-data": by_parametrization_of_data,
    "mode": by_mode_switch,
}
