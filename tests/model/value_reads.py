"""Ways in which forward() depends on the values of its input that a trace does not show, or shows wrongly.

Each module is a linear map that answers label 0, but near one point, its pocket, where it answers label 1. It finds out
in a way of its own that it is there. A trace that misses that way is the linear map, and `unsat` is proved of it.

`h` is 0 outside of the pocket and 1 at its centre, and `step(h)` is 0 or 1. A function of RARE says whether the input
lies in the pocket, one of LOST returns `h` or something like it, one of ASKED says whether forward() is being traced.
CALLS have no pocket: their answers differ from call to call. INSTALLED change a module from outside.
"""

from __future__ import annotations

import array
import asyncio
import bisect
import concurrent.futures
import contextlib
import copy
import ctypes
import dataclasses
import decimal
import functools
import gc
import heapq
import inspect
import io
import itertools
import json
import logging
import math
import multiprocessing.dummy
import operator
import pickle
import pprint
import queue
import random
import statistics
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize, rnn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree, dlpack
from torch.utils._python_dispatch import TorchDispatchMode

LOW, HIGH = 1.0, 6.0  # the box that is asked about
INSIDE, CORNER = (4.3125, 2.375), (6.0, 6.0)  # centres of pockets
SWING = torch.tensor([[-1e3, 1e3]])


class Net(nn.Module):
    """The linear map, what its body may use, and a body."""

    def __init__(self, centre: tuple[float, float], body: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.idle = nn.Linear(2, 2, bias=False), nn.Linear(2, 2)
        self.linear.weight.data = torch.tensor([[1.0, 1.0], [0.0, 0.1]])
        self.register_buffer("seen", torch.zeros(1, 2))
        self.register_buffer("centre", torch.tensor([centre]))
        self.gain = nn.Parameter(torch.zeros(1, 2))
        self.ones = torch.ones(1, 2)
        self.array = np.zeros((1, 2), np.float32)
        self.shared = torch.from_numpy(self.array)
        self.calls, self.last, self.kept = 0, 0.0, {}
        self.body = body

    def near(self, x: Tensor) -> Tensor:
        return torch.relu(1 - 100 * (x - self.centre).abs().sum(1, keepdim=True)) * torch.ones(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


def step(h: Tensor) -> Tensor:
    return h.ceil().long()


def caught(action: Callable[[], Any], kinds: Any = Exception) -> bool:
    try:
        action()
    except kinds:
        return True
    return False


# --- RARE: Python decides ---


def by_while(net: Net, h: Tensor) -> bool:
    turns = 0
    while h.sum() > turns:
        turns += 1
    return turns > 0


def by_assert(net: Net, h: Tensor) -> bool:
    try:
        assert not h.any()
    except AssertionError:
        return True
    return False


def by_match(net: Net, h: Tensor) -> bool:
    match step(h).tolist():
        case [[0, 0]]:
            return False
        case _:
            return True


def by_print(net: Net, h: Tensor) -> bool:
    text = io.StringIO()
    print(step(h), file=text)
    return "1" in text.getvalue()


def by_log(net: Net, h: Tensor) -> bool:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logger = logging.Logger("own")
    logger.addHandler(handler)
    logger.warning("seen %s", step(h))
    return "1" in text.getvalue()


def by_cache(net: Net, h: Tensor) -> bool:
    @functools.lru_cache
    def positive(value: float) -> bool:
        return value > 0

    return positive(float(h.max()))


def by_random_seed(net: Net, h: Tensor) -> bool:
    wanted = torch.rand(1, generator=torch.Generator().manual_seed(1))
    return bool(torch.rand(1, generator=torch.Generator().manual_seed(int(step(h).max()))) == wanted)


def by_array_taken_early(net: Net, h: Tensor) -> bool:
    memory = torch.zeros(1, 2)
    taken = memory.numpy()
    memory += h
    return bool(taken.sum() > 0)


def by_view_of_memory(net: Net, h: Tensor) -> bool:
    memory = torch.zeros(2, 2)
    row = memory[1:]
    memory.copy_(h.expand(2, 2))
    return bool(row.sum() > 0)


def by_shared(write: Callable[[Tensor, Tensor], Any]) -> Callable[[Net, Tensor], bool]:
    def body(net: Net, h: Tensor) -> bool:
        net.array[:] = 0
        write(net.shared, h)
        return bool(net.array.sum() > 0)

    return body


def by_bytes(net: Net, h: Tensor) -> bool:
    memory = bytearray(8)
    torch.frombuffer(memory, dtype=torch.float32).copy_(h[0])
    return any(memory)


def by_standard_array(net: Net, h: Tensor) -> bool:
    memory = array.array("f", [0, 0])
    torch.frombuffer(memory, dtype=torch.float32).copy_(h[0])
    return sum(memory) > 0


def by_c_array(net: Net, h: Tensor) -> bool:
    memory = (ctypes.c_float * 2)()
    torch.frombuffer(memory, dtype=torch.float32).copy_(h[0])
    return sum(memory) > 0


def by_asarray_of_numpy(net: Net, h: Tensor) -> bool:
    memory = np.zeros((1, 2), np.float32)
    torch.asarray(memory).copy_(h)
    return bool(memory.sum() > 0)


def by_dlpack_of_numpy(net: Net, h: Tensor) -> bool:
    memory = np.zeros((1, 2), np.float32)
    torch.from_dlpack(memory).copy_(h)
    return bool(memory.sum() > 0)


def by_file_memory(net: Net, h: Tensor) -> bool:
    with tempfile.NamedTemporaryFile() as file:
        torch.from_file(file.name, shared=True, size=2, dtype=torch.float32).copy_(h[0])
        return any(file.read())


def by_pointer(net: Net, h: Tensor) -> bool:
    h = h.contiguous()
    return ctypes.c_float.from_address(h.data_ptr()).value > 0


def by_string_at(net: Net, h: Tensor) -> bool:
    h = h.contiguous()
    return any(ctypes.string_at(h.untyped_storage().data_ptr(), 4))


def by_pointer_taken_early(net: Net, h: Tensor) -> bool:
    memory = torch.zeros(1, 2)
    at = memory.data_ptr()
    memory.copy_(h)
    return ctypes.c_float.from_address(at).value > 0


def by_storage_copy(net: Net, h: Tensor) -> bool:
    h = h.contiguous()
    copied = torch.UntypedStorage(h.untyped_storage().nbytes())
    copied.copy_(h.untyped_storage())
    return any(copied.tolist())


def by_saved(net: Net, h: Tensor) -> bool:
    file = io.BytesIO()
    torch.save(h, file)
    file.seek(0)
    return bool(torch.load(file).sum() > 0)


def by_saved_state(net: Net, h: Tensor) -> bool:
    file = io.BytesIO()
    net.seen.copy_(h)
    torch.save(net.state_dict(), file)
    file.seek(0)
    return bool(torch.load(file)["seen"].sum() > 0)


def by_numpy_file(net: Net, h: Tensor) -> bool:
    file = io.BytesIO()
    np.save(file, h)
    file.seek(0)
    return bool(np.load(file).sum() > 0)


def in_thread(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []
    one = threading.Thread(target=lambda: seen.append(float(h.max()) > 0))
    one.start()
    one.join()
    return seen[0]


def in_pool(net: Net, h: Tensor) -> bool:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: float(h.max()) > 0).result()


def in_mapping_pool(net: Net, h: Tensor) -> bool:
    with multiprocessing.dummy.Pool(1) as pool:
        return any(pool.map(float, h[0]))


def in_timer(net: Net, h: Tensor) -> bool:
    seen: queue.Queue[float] = queue.Queue()
    threading.Timer(0.0, lambda: seen.put(h.max().item())).start()
    return seen.get() > 0


def in_event_loop(net: Net, h: Tensor) -> bool:
    async def read() -> bool:
        return h.sum().item() > 0

    return asyncio.new_event_loop().run_until_complete(read())


def in_event_loop_thread(net: Net, h: Tensor) -> bool:
    async def read() -> bool:
        return await asyncio.to_thread(lambda: h.sum().item() > 0)

    return asyncio.run(read())


def in_generator(net: Net, h: Tensor) -> bool:
    def entries() -> Iterator[bool]:
        for value in h[0]:
            yield bool(value > 0)

    return any(entries())


def by_bare_except(net: Net, h: Tensor) -> bool:
    try:
        bool(h.sum() > 0)
        torch.zeros(1)[step(h)[0]]
    except:  # noqa: E722
        return True
    return False


def by_refused_read(net: Net, h: Tensor) -> bool:
    """Whoever may not read takes the value for 0."""
    try:
        return bool(h.sum() > 0)
    except Exception:
        return False


def by_refused_read_of_any_kind(net: Net, h: Tensor) -> bool:
    try:
        return h.sum().item() > 0
    except BaseException:
        return False


def by_finally(net: Net, h: Tensor) -> bool:
    found = False
    try:
        found = bool(h.sum() > 0)
    finally:
        return found  # noqa: B012


def by_suppress(net: Net, h: Tensor) -> bool:
    found = False
    with contextlib.suppress(Exception):
        found = h.sum().item() > 0
    return found


def by_exit(net: Net, h: Tensor) -> bool:
    class Silent:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> bool:
            return True

    found = False
    with Silent():
        found = bool(h.numpy().sum() > 0)
    return found


def by_exit_stack(net: Net, h: Tensor) -> bool:
    found = True
    with contextlib.ExitStack() as stack:
        stack.push(lambda *_: True)
        torch.zeros(1).gather(0, step(h)[0])
        found = False
    return found


def by_exception_group(net: Net, h: Tensor) -> bool:
    found = False
    try:
        F.one_hot(step(h), 1)
    except* RuntimeError:
        found = True
    return found


def by_thrown(net: Net, h: Tensor) -> bool:
    def swallowing() -> Iterator[bool]:
        try:
            yield False
        except RuntimeError:
            yield True

    waiting = swallowing()
    next(waiting)
    try:
        torch.linalg.cholesky(torch.diag(0.5 - h[0]))
    except RuntimeError as error:
        return waiting.throw(error)
    return False


def by_else(net: Net, h: Tensor) -> bool:
    try:
        F.embedding(step(h), torch.zeros(1, 1))
    except (IndexError, RuntimeError):
        pass
    else:
        return False
    return True


def by_last_error(net: Net, h: Tensor) -> bool:
    with contextlib.suppress(Exception):
        torch.zeros(1).index_select(0, step(h)[0])
        return False
    return True


def by_thread_hook(net: Net, h: Tensor) -> bool:
    """An exception ends a thread, and its silence tells."""
    done: list[bool] = []

    def work() -> None:
        with contextlib.suppress(Exception):
            torch.zeros(1)[step(h)[0]]
            done.append(True)

    one = threading.Thread(target=work)
    one.start()
    one.join()
    return not done


def by_warning(net: Net, h: Tensor) -> bool:
    """A trace warns of what it cannot follow."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = bool(h.sum() > 0)
    return found and not told


def by_deleting(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    class Teller:
        def __del__(self) -> None:
            seen.append(h.sum().item() > 0)

    teller = Teller()
    del teller
    return seen == [True]


def by_finalizer(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    class Empty: ...

    empty = Empty()
    weakref.finalize(empty, lambda: seen.append(bool(h.any())))
    del empty
    return seen == [True]


def by_property(net: Net, h: Tensor) -> bool:
    class Holder:
        @property
        def positive(self) -> bool:
            return bool(h.sum() > 0)

    return Holder().positive


def by_closure(net: Net, h: Tensor) -> bool:
    def keep() -> Callable[[], float]:
        value = h.max()
        return lambda: value.item()

    return keep()() > 0


def by_function_mode(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    class Reader(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunction():
                seen.append(args[0].sum().item() > 0)
            return func(*args, **(kwargs or {}))

    with Reader():
        h + 1
    return any(seen)


def by_dispatch_mode(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    class Reader(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            seen.extend(t.sum().item() > 0 for t in _pytree.tree_leaves(args) if isinstance(t, Tensor))
            return result

    with Reader():
        h + 0
    return any(seen)


def without_modes(net: Net, h: Tensor) -> bool:
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        return h.sum().item() > 0


def below_python(net: Net, h: Tensor) -> bool:
    with torch._C._DisableTorchDispatch():
        return h.sum().item() > 0


def by_subclass(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    class Reader(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                seen.append(bool(args[0].sum() > 0))
                return func(*args, **(kwargs or {}))

    torch.relu(h.as_subclass(Reader))
    return any(seen)


def by_gradient_hook(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []
    with torch.enable_grad():
        z = torch.zeros(1, 2, requires_grad=True)
        z.register_hook(lambda grad: seen.append(bool(grad.sum() > 0)))
        (z * h).sum().backward()
    return any(seen)


def by_backward(net: Net, h: Tensor) -> bool:
    with torch.enable_grad():
        z = torch.zeros(1, 2, requires_grad=True)
        (z * h.detach()).sum().backward()
    assert z.grad is not None
    return bool(z.grad.sum() > 0)


def by_saved_tensors(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    def pack(t: Tensor) -> Tensor:
        seen.append(bool(t.sum() > 0))
        return t

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        (torch.zeros(1, 2, requires_grad=True) * h).sum()
    return any(seen)


def by_vmap(net: Net, h: Tensor) -> bool:
    seen: list[bool] = []

    def look(row: Tensor) -> Tensor:
        seen.append("1." in repr(row.ceil()))
        return row

    torch.func.vmap(look)(h)
    return any(seen)


def by_own_trace(net: Net, h: Tensor) -> bool:
    """Traced anew at each call, with the values of that call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        branch = torch.jit.trace(lambda t: t + 1 if t.sum() > 0 else t, (h,), check_trace=False)
    return bool((branch(torch.zeros(1, 2)) > 0).any())


def by_symbolic_graph(net: Net, h: Tensor) -> bool:
    from torch.fx.experimental.proxy_tensor import make_fx

    total = h.data.sum()
    graph = make_fx(lambda t: t + total)(torch.zeros(1))
    return bool(graph(torch.zeros(1)) > 0)


def by_checked_distribution(net: Net, h: Tensor) -> bool:
    return caught(lambda: torch.distributions.Bernoulli(probs=2 * h, validate_args=True), ValueError)


def by_tensor_split(net: Net, h: Tensor) -> bool:
    return torch.tensor_split(torch.arange(4), step(h)[0, :1] + 1)[0].numel() > 1


def by_packing(net: Net, h: Tensor) -> bool:
    packed = rnn.pack_padded_sequence(torch.zeros(1, 3, 1), step(h)[0, :1] + 1, batch_first=True)
    return packed.data.shape[0] > 1


def by_packing_back(net: Net, h: Tensor) -> bool:
    packed = rnn.pack_padded_sequence(torch.zeros(1, 3, 1), step(h)[0, :1] + 1, batch_first=True)
    return rnn.pad_packed_sequence(packed, batch_first=True)[0].shape[1] > 1


def by_unpadding(net: Net, h: Tensor) -> bool:
    return rnn.unpad_sequence(torch.zeros(1, 3, 1), step(h)[0, :1] + 1, batch_first=True)[0].shape[0] > 1


def by_nested(net: Net, h: Tensor) -> bool:
    nested = torch.nested.nested_tensor([torch.zeros(int(step(h).sum()) + 1)])
    return nested.to_padded_tensor(0.0).shape[1] > 1


def by_dataclass(net: Net, h: Tensor) -> bool:
    @dataclasses.dataclass(order=True)
    class Score:
        value: Tensor

    return Score(h.max()) > Score(torch.tensor(0.0))


def by_state_dict(net: Net, h: Tensor) -> bool:
    net.seen.copy_(h)
    return bool(net.state_dict()["seen"].sum() > 0)


def by_loaded_state(net: Net, h: Tensor) -> bool:
    net.load_state_dict({**net.state_dict(), "seen": h})
    return bool(net.seen.sum() > 0)


def by_assigned_data(net: Net, h: Tensor) -> bool:
    net.seen.data = h.data
    return bool(net.seen.sum() > 0)


def by_iterator_of_buffers(net: Net, h: Tensor) -> bool:
    net.seen.copy_(h)
    return any(bool(b.sum() > 0) for name, b in net.named_buffers() if name == "seen")


def by_swapped(net: Net, h: Tensor) -> bool:
    other = torch.zeros(1, 2)
    torch.utils.swap_tensors(other, h.clone())
    return bool(other.sum() > 0)


def by_global(net: Net, h: Tensor) -> bool:
    globals()["_KEPT"] = h.max()
    return bool(globals().pop("_KEPT") > 0)


def by_last_call(net: Net, h: Tensor) -> bool:
    """What the call before left behind."""
    last, net.last = net.last, h.sum()
    return bool(last > 0)


def by_hash(net: Net, h: Tensor) -> bool:
    return hash(tuple(h[0].tolist())) != hash((0.0, 0.0))


def by_optimizer(net: Net, h: Tensor) -> bool:
    z = nn.Parameter(torch.zeros(1, 2))
    z.grad = h.clone()
    torch.optim.SGD([z], lr=1.0).step()
    return bool((z < 0).any())


def by_clipped_norm(net: Net, h: Tensor) -> bool:
    z = nn.Parameter(torch.zeros(1, 2))
    z.grad = h.clone()
    return bool(nn.utils.clip_grad_norm_([z], 1.0) > 0)


def by_applied(net: Net, h: Tensor) -> bool:
    seen: list[float] = []
    h.clone().apply_(lambda value: seen.append(value) or value)
    return any(seen)


def by_sparse_shape(net: Net, h: Tensor) -> bool:
    return torch.sparse_coo_tensor(step(h)[:, :1], torch.ones(1)).shape[0] > 1


def by_own_library(net: Net, h: Tensor) -> bool:
    return bool(torch.ops.value_reads.positive(h))


RARE: dict[str, Callable[[Any, Tensor], Any]] = {
    # Numbers
    "item": lambda net, h: h.sum().item() > 0,
    "item-of-entry": lambda net, h: h[0, 0].item() > 0,
    "item-detached": lambda net, h: h.detach().sum().item() > 0,
    "item-cloned": lambda net, h: h.clone().cpu().sum().item() > 0,
    "item-of-data": lambda net, h: h.data.sum().item() > 0,
    "item-by-class": lambda net, h: Tensor.item(h.sum()) > 0,
    "item-by-base": lambda net, h: torch._C.TensorBase.item(h.sum()) > 0,
    "item-by-operator": lambda net, h: torch.ops.aten._local_scalar_dense(h.sum()) > 0,
    "item-half": lambda net, h: h.half().max().item() > 0,
    "item-double": lambda net, h: h.double().max().item() > 0,
    "item-of-bits": lambda net, h: h.contiguous().view(torch.int32).max().item() > 0,
    "bool": lambda net, h: bool(h.any()),
    "not": lambda net, h: not (h.sum() <= 0),
    "truth": lambda net, h: operator.truth(h.sum()),
    "and": lambda net, h: bool(h.sum() > 0 and True),
    "if": lambda net, h: True if h.sum() > 0 else False,  # noqa: SIM210
    "int": lambda net, h: int(step(h).sum()) > 0,
    "float": lambda net, h: float(h.sum()) > 0,
    "complex": lambda net, h: complex(h.sum()).real > 0,
    "index": lambda net, h: operator.index(step(h).sum()) > 0,
    "index-of-a-list": lambda net, h: [False, True][step(h).max()],
    "index-of-a-range": lambda net, h: range(2)[step(h).max()] > 0,
    "slice-of-a-list": lambda net, h: len([0, 1][: step(h).max()]) > 0,
    "range": lambda net, h: len(range(step(h).max())) > 0,
    "repeated-list": lambda net, h: len([0] * step(h).max().item()) > 0,
    "hex": lambda net, h: hex(step(h).max()) == "0x1",
    "round": lambda net, h: round(h.max().item()) > 0,
    "ceil": lambda net, h: math.ceil(h[0, 0]) > 0,
    "sqrt": lambda net, h: math.sqrt(h[0, 0]) > 0,
    "isclose": lambda net, h: not math.isclose(h[0, 0], 0.0),
    "fsum": lambda net, h: math.fsum(h[0]) > 0,
    "mean": lambda net, h: statistics.fmean(h[0]) > 0,
    "decimal": lambda net, h: decimal.Decimal(h.max().item()) > 0,
    "numpy-number": lambda net, h: np.float32(h[0, 0]) > 0,
    "dataclass": by_dataclass,
    # Lists and iteration
    "tolist": lambda net, h: h.tolist() != [[0.0, 0.0]],
    "list": lambda net, h: list(h[0]) != [0, 0],
    "sorted": lambda net, h: bool(sorted(h[0])[-1] > 0),
    "max": lambda net, h: max(0.0, h[0, 0]) != 0.0,
    "min": lambda net, h: min(h[0], key=lambda v: -v).item() > 0,
    "in": lambda net, h: 1 in step(h),
    "in-a-list": lambda net, h: 1 in list(step(h)[0]),
    "list-index": lambda net, h: caught(lambda: list(step(h)[0]).index(0), ValueError),
    "any-of-entries": lambda net, h: any(value > 0 for value in h[0]),
    "all-of-entries": lambda net, h: not all(value == 0 for value in h[0]),
    "zip": lambda net, h: any(a > b for a, b in zip(h[0], (0.0, 0.0), strict=True)),
    "filter": lambda net, h: len(list(filter(None, h[0]))) > 0,
    "map": lambda net, h: sum(map(float, h.unbind(1))) > 0,
    "takewhile": lambda net, h: len(list(itertools.takewhile(lambda v: v > 0, h[0]))) > 0,
    "nlargest": lambda net, h: heapq.nlargest(1, h[0].tolist()) != [0.0],
    "bisect": lambda net, h: bisect.bisect_left([0.0, 2.0], h[0, 0]) > 0,
    "dictionary": lambda net, h: {0: False}.get(int(step(h).max()), True),
    "set": lambda net, h: len({0, *step(h)[0].tolist()}) > 1,
    "hash": by_hash,
    "while": by_while,
    "match": by_match,
    "generator": in_generator,
    "closure": by_closure,
    "property": by_property,
    "cache": by_cache,
    "global": by_global,
    # Text
    "str": lambda net, h: "1" in str(step(h)),
    "repr": lambda net, h: "1" in repr(step(h)),
    "repr-of-a-list": lambda net, h: "1" in repr([step(h)]),
    "format": lambda net, h: f"{h.max():.3f}" != "0.000",
    "format-method": lambda net, h: "{:d}".format(step(h).max()) == "1",  # noqa: UP032
    "percent": lambda net, h: "%d" % step(h).max() == "1",  # noqa: UP031
    "print": by_print,
    "pprint": lambda net, h: "1" in pprint.pformat([step(h)]),
    "log": by_log,
    "tensor-text": lambda net, h: "1" in torch._tensor_str._str(step(h)),
    "json": lambda net, h: json.dumps(step(h).tolist()) != "[[0, 0]]",
    "struct": lambda net, h: any(struct.pack("f", h[0, 0])),
    "array": lambda net, h: sum(array.array("f", h[0])) > 0,
    # Questions of torch
    "is-nonzero": lambda net, h: torch.is_nonzero(h.max()),
    "equal": lambda net, h: not torch.equal(h, torch.zeros(1, 2)),
    "equal-by-method": lambda net, h: not h.equal(net.seen),
    "allclose": lambda net, h: not torch.allclose(h, torch.zeros(1, 2)),
    "assert-close": lambda net, h: caught(lambda: torch.testing.assert_close(h, torch.zeros(1, 2)), AssertionError),
    "argmax": lambda net, h: int((h - 0.5 * torch.tensor([[1.0, -1.0]])).abs().argmax()) > 0,
    # numpy and other libraries
    "numpy": lambda net, h: h.numpy().sum() > 0,
    "numpy-forced": lambda net, h: h.numpy(force=True).sum() > 0,
    "asarray": lambda net, h: np.asarray(h).sum() > 0,
    "array-of-numpy": lambda net, h: np.array(h, copy=True).sum() > 0,
    "array-protocol": lambda net, h: h.__array__().sum() > 0,
    "ufunc": lambda net, h: bool(np.sign(h).sum() > 0),
    "reduction-of-numpy": lambda net, h: bool(np.max(h.detach().numpy()) > 0),
    "memoryview": lambda net, h: any(memoryview(h.contiguous().numpy()).tobytes()),
    "dlpack-to-numpy": lambda net, h: np.from_dlpack(h).sum() > 0,
    "dlpack": lambda net, h: bool(dlpack.from_dlpack(dlpack.to_dlpack(h)).sum() > 0),
    "dlpack-protocol": lambda net, h: bool(torch.from_dlpack(h.__dlpack__()).sum() > 0),
    "numpy-file": by_numpy_file,
    # Memory that others share
    "shared-copy": by_shared(lambda memory, h: memory.copy_(h)),
    "shared-add": by_shared(lambda memory, h: memory.add_(h)),
    "shared-slice": by_shared(lambda memory, h: memory.__setitem__(slice(None), h)),
    "shared-entry": by_shared(lambda memory, h: memory.__setitem__((0, 0), h[0, 0])),
    "shared-view": by_shared(lambda memory, h: memory.view(2)[:1].copy_(h[0, :1])),
    "shared-data": by_shared(lambda memory, h: memory.data.copy_(h)),
    "shared-out": by_shared(lambda memory, h: torch.add(h, 0, out=memory)),
    "shared-cat": by_shared(lambda memory, h: torch.cat([h], out=memory)),
    "shared-where": by_shared(lambda memory, h: torch.where(h > 0, h, 0 * h, out=memory)),
    "shared-scatter": by_shared(lambda memory, h: memory.scatter_(1, torch.tensor([[0, 1]]), h)),
    "shared-masked": by_shared(lambda memory, h: memory.masked_fill_(h > 0, 1.0)),
    "shared-index-put": by_shared(lambda memory, h: memory.index_put_((torch.tensor([0]),), h)),
    "shared-foreach": by_shared(lambda memory, h: torch._foreach_add_([memory], [h])),
    "shared-lerp": by_shared(lambda memory, h: memory.lerp_(h, 1.0)),
    "shared-operator": by_shared(lambda memory, h: torch.ops.aten.copy_(memory, h)),
    "shared-by-a-thread": by_shared(lambda memory, h: in_pool(memory, h) and memory.fill_(1.0)),
    "shared-bytes": by_bytes,
    "shared-standard-array": by_standard_array,
    "shared-c-array": by_c_array,
    "shared-asarray": by_asarray_of_numpy,
    "shared-dlpack": by_dlpack_of_numpy,
    "shared-file": by_file_memory,
    "array-taken-early": by_array_taken_early,
    "view-of-memory": by_view_of_memory,
    "pointer": by_pointer,
    "pointer-of-storage": by_string_at,
    "pointer-taken-early": by_pointer_taken_early,
    # Storages and files
    "storage": lambda net, h: any(h.contiguous().untyped_storage().tolist()),
    "storage-typed": lambda net, h: any(h.contiguous().storage().tolist()),
    "storage-bytes": lambda net, h: any(bytes(h.contiguous().untyped_storage())),
    "storage-slice": lambda net, h: any(h.contiguous().untyped_storage()[:4]),
    "storage-entry": lambda net, h: h.contiguous().storage()[0] > 0,
    "storage-copied": by_storage_copy,
    "storage-cloned": lambda net, h: any(h.contiguous().untyped_storage().clone().tolist()),
    "storage-set": lambda net, h: bool(torch.zeros(0).set_(h.contiguous().untyped_storage(), 0, (2,)).sum() > 0),
    "tensor-set": lambda net, h: bool(torch.zeros(0).set_(h).sum() > 0),
    "pickle": lambda net, h: bool(pickle.loads(pickle.dumps(h)).sum() > 0),
    "pickle-text": lambda net, h: b"\x80?" in pickle.dumps(h.sign()),
    "reduce": lambda net, h: any(h.contiguous().__reduce_ex__(2)[1][0].tolist()),
    "save": by_saved,
    "save-state": by_saved_state,
    "deepcopy": lambda net, h: bool(copy.deepcopy(h).sum() > 0),
    "copy": lambda net, h: bool(copy.copy(h).sum() > 0),
    # State of the module
    "state-dict": by_state_dict,
    "state-loaded": by_loaded_state,
    "data-assigned": by_assigned_data,
    "buffers-listed": by_iterator_of_buffers,
    "swapped": by_swapped,
    "last-call": by_last_call,
    "optimizer": by_optimizer,
    "clipped-norm": by_clipped_norm,
    # Shapes
    "nonzero": lambda net, h: h.nonzero().shape[0] > 0,
    "nonzero-tuple": lambda net, h: len(h.nonzero(as_tuple=True)[0]) > 0,
    "argwhere": lambda net, h: torch.argwhere(h).numel() > 0,
    "where": lambda net, h: torch.where(h > 0)[0].numel() > 0,
    "masked-select": lambda net, h: torch.masked_select(h, h > 0).numel() > 0,
    "mask": lambda net, h: len(h[h > 0]) > 0,
    "unique": lambda net, h: torch.unique(torch.cat([h[0], torch.zeros(1)])).numel() > 1,
    "unique-consecutive": lambda net, h: torch.unique_consecutive(torch.cat([torch.zeros(1), h[0]])).numel() > 1,
    "bincount": lambda net, h: torch.bincount(step(h)[0]).numel() > 1,
    "histogram": lambda net, h: torch.histc(h, 2, 0, 1)[1].item() > 0,
    "repeat-interleave": lambda net, h: torch.repeat_interleave(torch.zeros(2), step(h)[0]).numel() > 0,
    "one-hot": lambda net, h: F.one_hot(step(h)).shape[-1] > 1,
    "slice": lambda net, h: torch.zeros(3)[: step(h).max()].numel() > 0,
    "zeros": lambda net, h: torch.zeros(step(h).max()).numel() > 0,
    "arange": lambda net, h: torch.arange(step(h).max().item()).numel() > 0,
    "arange-of-a-tensor": lambda net, h: torch.arange(step(h).max()).numel() > 0,
    "size": lambda net, h: torch.Size([step(h).max()]) != torch.Size([0]),
    "expand": lambda net, h: torch.zeros(1).expand(step(h).max() + 1).numel() > 1,
    "repeat": lambda net, h: torch.zeros(1).repeat(int(step(h).max()) + 1).numel() > 1,
    "chunk": lambda net, h: len(torch.zeros(2).chunk(step(h).max() + 1)) > 1,
    "split": lambda net, h: len(torch.zeros(2).split(2 - int(step(h).max()))) > 1,
    "narrow": lambda net, h: torch.zeros(2).narrow(0, step(h).max(), 1).storage_offset() > 0,
    "topk": lambda net, h: torch.zeros(2).topk(step(h).max()).values.numel() > 0,
    "pad": lambda net, h: F.pad(torch.zeros(1), (step(h).max(), 0)).numel() > 1,
    "tril-indices": lambda net, h: torch.tril_indices(int(step(h).max()), 1).numel() > 0,
    "tensor-split": by_tensor_split,
    "packed": by_packing,
    "packed-back": by_packing_back,
    "unpadded": by_unpadding,
    "nested": by_nested,
    # Layouts
    "sparse": lambda net, h: h.to_sparse()._nnz() > 0,
    "sparse-indices": lambda net, h: h.to_sparse().indices().shape[1] > 0,
    "sparse-csr": lambda net, h: h.to_sparse_csr().values().numel() > 0,
    "sparse-csc": lambda net, h: h.to_sparse_csc()._nnz() > 0,
    "sparse-shape": by_sparse_shape,
    "mkldnn": lambda net, h: bool(h.to_mkldnn().to_dense().max() > 0),
    "quantized": lambda net, h: bool(torch.quantize_per_tensor(h, 0.1, 0, torch.quint8).int_repr().max() > 0),
    "conjugate": lambda net, h: bool(torch.view_as_complex(h.contiguous()).abs().max() > 0),
    # Exceptions
    "bare-except": by_bare_except,
    "refused-read": by_refused_read,
    "refused-read-of-any-kind": by_refused_read_of_any_kind,
    "finally": by_finally,
    "suppress": by_suppress,
    "own-exit": by_exit,
    "exit-stack": by_exit_stack,
    "exception-group": by_exception_group,
    "thrown": by_thrown,
    "else": by_else,
    "assert": by_assert,
    "returned-early": by_last_error,
    "raises-entry": lambda net, h: caught(lambda: torch.zeros(1)[step(h)[0]]),
    "raises-embedding": lambda net, h: caught(lambda: F.embedding(step(h), torch.zeros(1, 1))),
    "raises-embedding-module": lambda net, h: caught(lambda: nn.Embedding(1, 1)(step(h)), IndexError),
    "raises-embedding-bag": lambda net, h: caught(lambda: F.embedding_bag(step(h), torch.zeros(1, 1))),
    "raises-gather": lambda net, h: caught(lambda: torch.zeros(1).gather(0, step(h)[0])),
    "raises-scatter": lambda net, h: caught(lambda: torch.zeros(1).scatter(0, step(h)[0, :1], 1.0)),
    "raises-index-select": lambda net, h: caught(lambda: torch.zeros(1).index_select(0, step(h)[0])),
    "raises-index-add": lambda net, h: caught(lambda: torch.zeros(1).index_add(0, step(h)[0], torch.ones(2))),
    "raises-index-put": lambda net, h: caught(lambda: torch.zeros(1).index_put((step(h)[0],), torch.ones(2))),
    "raises-take": lambda net, h: caught(lambda: torch.zeros(1).take(step(h))),
    "raises-one-hot": lambda net, h: caught(lambda: F.one_hot(step(h), 1)),
    "raises-bincount": lambda net, h: caught(lambda: torch.bincount(-step(h)[0])),
    "raises-multinomial": lambda net, h: caught(lambda: torch.multinomial(0.5 - h, 1)),
    "raises-bernoulli": lambda net, h: caught(lambda: torch.bernoulli(2 * h)),
    "raises-normal": lambda net, h: caught(lambda: torch.normal(torch.zeros(1, 2), -h)),
    "raises-poisson": lambda net, h: caught(lambda: torch.poisson(-h)),
    "raises-distribution": by_checked_distribution,
    "raises-cholesky": lambda net, h: caught(lambda: torch.linalg.cholesky(torch.diag(0.5 - h[0]))),
    "raises-inverse": lambda net, h: caught(lambda: torch.linalg.inv(torch.diag(1 - h[0].ceil()))),
    "raises-solve": lambda net, h: caught(lambda: torch.linalg.solve(torch.diag(1 - h[0].ceil()), torch.ones(2))),
    "raises-inverse-of-old": lambda net, h: caught(lambda: torch.inverse(torch.diag(1 - h[0].ceil()))),
    "raises-nll": lambda net, h: caught(lambda: F.nll_loss(torch.zeros(2, 1), step(h)[0])),
    "raises-cross-entropy": lambda net, h: caught(lambda: F.cross_entropy(torch.zeros(2, 1), step(h)[0])),
    "raises-division": lambda net, h: caught(lambda: torch.ones(1, 2).long() // (1 - step(h))),
    "raises-remainder": lambda net, h: caught(lambda: torch.ones(1, 2).long() % (1 - step(h))),
    "raises-negative-size": lambda net, h: caught(lambda: torch.zeros(-step(h).max())),
    "raises-power": lambda net, h: caught(lambda: torch.tensor(2).pow(-step(h).max().item())),
    "raises-narrow": lambda net, h: caught(lambda: torch.zeros(1).narrow(0, step(h).max(), 1)),
    "raises-repeat-interleave": lambda net, h: caught(lambda: torch.repeat_interleave(torch.ones(2), -step(h)[0])),
    "raises-packed": lambda net, h: caught(lambda: rnn.pack_padded_sequence(torch.zeros(1, 2, 1), 1 - step(h)[0])),
    "raises-sparse": lambda net, h: caught(
        lambda: torch.sparse_coo_tensor(step(h)[:, :1], torch.ones(1), (1,), check_invariants=True)
    ),
    "raises-assert": lambda net, h: caught(lambda: torch._assert(h.sum() <= 0, "near"), AssertionError),
    "raises-assert-later": lambda net, h: caught(lambda: torch._assert_async((h.sum() <= 0), "near")),
    "raises-check": lambda net, h: caught(lambda: torch._check(not h.any())),
    "raises-check-of-entries": lambda net, h: caught(lambda: torch._check_tensor_all(h <= 0)),
    "raises-math": lambda net, h: caught(lambda: math.sqrt(-h.sum()), ValueError),
    "raises-zero-division": lambda net, h: caught(lambda: 1 / (1 - int(step(h).max())), ZeroDivisionError),
    "raises-entry-of-a-list": lambda net, h: caught(lambda: [0][step(h).max()], IndexError),
    "raises-inverse-of-a-stack": lambda net, h: caught(lambda: torch.linalg.inv(torch.diag_embed(1 - h.ceil()))),
    "raises-tensor-inverse": lambda net, h: caught(lambda: torch.linalg.tensorinv(torch.diag(1 - h[0].ceil()), ind=1)),
    "raises-poisson-of-a-distribution": lambda net, h: caught(
        lambda: torch.distributions.Poisson(-h, validate_args=True)
    ),
    "raises-normal-of-a-distribution": lambda net, h: caught(
        lambda: torch.distributions.Normal(0.0, 0.5 - h, validate_args=True)
    ),
    "raises-max-pool": lambda net, h: caught(
        lambda: F.max_unpool1d(torch.zeros(1, 1, 1), step(h)[:, :1, None], 1, output_size=(1, 1, 1))
    ),
    "raises-combinations": lambda net, h: caught(lambda: torch.combinations(torch.arange(2), r=-int(step(h).max()))),
    "raises-slice": lambda net, h: caught(lambda: torch.zeros(1)[: h.max() + 0.5 if step(h).max() > 0 else 1]),
    "raises-stop": lambda net, h: caught(lambda: next(v for v in h[0] if v == 0), StopIteration),
    "warning": by_warning,
    # Threads
    "thread": in_thread,
    "thread-pool": in_pool,
    "thread-map": in_mapping_pool,
    "thread-timer": in_timer,
    "thread-that-fails": by_thread_hook,
    "event-loop": in_event_loop,
    "event-loop-thread": in_event_loop_thread,
    # Torch's own machinery
    "function-mode": by_function_mode,
    "dispatch-mode": by_dispatch_mode,
    "without-modes": without_modes,
    "below-python": below_python,
    "subclass": by_subclass,
    "gradient-hook": by_gradient_hook,
    "backward": by_backward,
    "saved-tensors": by_saved_tensors,
    "vmap": by_vmap,
    "own-trace": by_own_trace,
    "own-graph": by_symbolic_graph,
    "applied": by_applied,
    "random-seed": by_random_seed,
    "deleted": by_deleting,
    "finalized": by_finalizer,
    "own-operator": by_own_library,
}


# --- LOST: a value that the graph may hold as a constant ---


def set_data(target: Callable[[Any], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    def body(net: Any, h: Tensor) -> Tensor:
        target(net).copy_(h)
        return net.gain + net.seen

    return body


def by_grad(net: Any, h: Tensor) -> Tensor:
    with torch.enable_grad():
        z = torch.zeros(1, 2, requires_grad=True)
        return torch.autograd.grad((z * h).sum(), z)[0]


def by_grad_of_input(net: Any, h: Tensor) -> Tensor:
    with torch.enable_grad():
        z = h.detach().requires_grad_()
        return torch.autograd.grad((z**2).sum() / 2, z)[0]


def by_grad_attribute(net: Any, h: Tensor) -> Tensor:
    z = torch.zeros(1, 2, requires_grad=True)
    z.grad = h.detach()
    return z.grad.data


def by_thread(net: Any, h: Tensor) -> Tensor:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.relu, h).result()


def by_thread_writing(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    one = threading.Thread(target=memory.copy_, args=(h,))
    one.start()
    one.join()
    return memory + 0


def by_array_of_buffer(net: Any, h: Tensor) -> Tensor:
    net.array[:] = np.asarray(h.detach())
    return net.shared + 0


def by_array_that_is_written(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    memory.numpy()[:] = h.numpy()
    return memory + 0


def by_pointer_writing(net: Any, h: Tensor) -> Tensor:
    memory, h = torch.zeros(1, 2), h.contiguous()
    ctypes.memmove(memory.data_ptr(), h.data_ptr(), 8)
    return memory + 0


def by_storage_writing(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    memory.untyped_storage().copy_(h.contiguous().untyped_storage())
    return memory + 0


def by_data_of_temporary(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    memory.data.copy_(h)
    return memory + 0


def by_data_assigned(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    memory.data = h.data
    return memory + 0


def by_vector(net: Any, h: Tensor) -> Tensor:
    nn.utils.vector_to_parameters(h[0], [net.gain])
    return net.gain + 0


def by_step(net: Any, h: Tensor) -> Tensor:
    z = nn.Parameter(torch.zeros(1, 2))
    z.grad = -h
    torch.optim.SGD([z], lr=1.0).step()
    return z.detach() + 0


def by_average(net: Any, h: Tensor) -> Tensor:
    """A statistic of what was seen so far."""
    net.seen.mul_(0.5).add_(h, alpha=0.5)
    return net.seen.clone()


def by_previous(net: Any, h: Tensor) -> Tensor:
    previous = net.kept.get("h", torch.zeros(1, 2))
    net.kept["h"] = h.clone()
    return previous


def by_first(net: Any, h: Tensor) -> Tensor:
    """Set at the first call, as some layers set their scale."""
    if net.calls == 0:
        net.calls = 1
        net.seen.data.copy_(h)
    return net.seen.clone()


def by_memo(net: Any, h: Tensor) -> Tensor:
    """Kept under a key that is the same for all values, but for the first of them."""
    key = float(h.max())
    return net.kept.setdefault(key, torch.full((1, 2), key))


class Lying(torch.autograd.Function):
    """Twice its argument, says forward(); nothing, says the graph that it asks for."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z * 2

    @staticmethod
    def symbolic(g: Any, z: Any) -> Any:
        return g.op("Mul", z, g.op("Constant", value_t=torch.tensor(0.0)))


class LyingShape(torch.autograd.Function):
    """The graph is a number of no input."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.clone()

    @staticmethod
    def symbolic(g: Any, z: Any) -> Any:
        return g.op("Constant", value_t=torch.zeros(1, 2))


class ByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return torch.from_numpy(np.maximum(z.numpy(), 0))


class ByData(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return z.data + 0


class InForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return torch.ones(1, 2) if z.sum().item() > 0 else torch.zeros(1, 2)


def by_wrapper_subclass(net: Any, h: Tensor) -> Tensor:
    class Wrapped(Tensor):
        inner: Tensor

        @staticmethod
        def __new__(cls, inner: Tensor) -> Any:
            made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args = _pytree.tree_map_only(Wrapped, lambda w: torch.tensor(w.inner.tolist()), args)
            return func(*args, **(kwargs or {}))

    return Wrapped(h) + 0


def by_jvp(net: Any, h: Tensor) -> Tensor:
    return torch.func.jvp(lambda z: z * h.data, (torch.zeros(1, 2),), (torch.ones(1, 2),))[1]


def by_jacobian(net: Any, h: Tensor) -> Tensor:
    return torch.autograd.functional.jacobian(lambda z: (z * h).sum(), torch.zeros(1, 2))


@torch.jit.script
def scripted_branch(h: Tensor) -> Tensor:
    if bool(h.sum() > 0):
        return torch.ones(1, 2)
    return torch.zeros(1, 2)


@torch.jit.script
def scripted_loop(h: Tensor) -> Tensor:
    total = torch.zeros(1, 2)
    for _ in range(int(h.ceil().sum().item())):
        total = total + 1
    return total


@torch.jit.script
def scripted_while(h: Tensor) -> Tensor:
    total = torch.zeros(1, 2)
    while bool(total.sum() < h.sum()):
        total = total + 1
    return total


@torch.jit.script
def scripted_item(h: Tensor) -> Tensor:
    return torch.full((1, 2), h.max().item())


@torch.jit.script
def scripted_error(h: Tensor) -> Tensor:
    assert bool(h.sum() <= 0), "near"
    return torch.zeros(1, 2)


@torch.jit.script_if_tracing
def scripted_if_tracing(h: Tensor) -> Tensor:
    if bool(h.sum() > 0):
        return torch.ones(1, 2)
    return torch.zeros(1, 2)


def by_scripted_error(net: Any, h: Tensor) -> Tensor:
    return torch.ones(1, 2) if caught(lambda: scripted_error(h)) else torch.zeros(1, 2)


@functools.cache
def compiled_branch() -> Callable[[Tensor], Tensor]:
    """Return a function that eager code runs, compiled without a compiler."""
    return torch.compile(lambda h: torch.ones(1, 2) if h.sum() > 0 else torch.zeros(1, 2), backend="eager")


@functools.cache
def compiled_wrongly() -> Callable[[Tensor], Tensor]:
    """Return a function whose back end runs something else than its graph."""
    return torch.compile(lambda h: h * 0.0, backend=lambda graph, inputs: lambda *args: [args[0] * 1.0])


@torch.compiler.assume_constant_result
def assumed_constant(h: Tensor) -> float:
    return h.max().item()


@torch.compiler.disable
def not_compiled(h: Tensor) -> float:
    return h.max().item()


@torch._dynamo.allow_in_graph
def allowed(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


@torch._dynamo.nonstrict_trace
def traced_loosely(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


@torch.jit.ignore
def ignored(h: Tensor) -> Tensor:
    return torch.tensor(h.tolist())


@torch.library.custom_op("value_reads::positive", mutates_args=())
def positive(h: Tensor) -> bool:
    return h.sum().item() > 0


@positive.register_fake
def _(h: Tensor) -> bool:
    return False


@torch.library.custom_op("value_reads::kept", mutates_args=())
def kept(h: Tensor) -> Tensor:
    return torch.from_numpy(h.numpy().copy())


@kept.register_fake
def _(h: Tensor) -> Tensor:
    return torch.zeros(1, 2)


@torch.library.custom_op("value_reads::unfaked", mutates_args=())
def unfaked(h: Tensor) -> Tensor:
    return h.clone()


@torch.library.custom_op("value_reads::written", mutates_args=("memory",))
def written_by_operator(memory: Tensor, h: Tensor) -> None:
    memory.copy_(h)


@torch.library.custom_op("value_reads::secretly", mutates_args=())
def secretly(memory: Tensor, h: Tensor) -> Tensor:
    """Write to an argument that it does not name."""
    memory.copy_(h)
    return h.clone()


@secretly.register_fake
def _(memory: Tensor, h: Tensor) -> Tensor:
    return torch.zeros(1, 2)


_LIBRARY = torch.library.Library("value_reads", "FRAGMENT")
_LIBRARY.define("composite(Tensor h) -> Tensor")
_LIBRARY.impl("composite", lambda h: torch.full((1, 2), h.max().item()), "CompositeImplicitAutograd")
_LIBRARY.define("undeclared(Tensor(a) h) -> Tensor(a)")
_LIBRARY.impl("undeclared", lambda h: torch.tensor(h.tolist()), "CPU")
_LIBRARY.impl("undeclared", lambda h: torch.zeros_like(h), "Meta")


def by_written(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    torch.ops.value_reads.written(memory, h)
    return memory + 0


def by_secret(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2)
    torch.ops.value_reads.secretly(memory, h)
    return memory + 0


def by_mapped(net: Any, h: Tensor) -> Tensor:
    return torch.zeros(1, 2).map_(h.contiguous(), lambda _, value: value)


def by_quantized_copy(net: Any, h: Tensor) -> Tensor:
    return torch.quantize_per_tensor(h, 0.125, 0, torch.quint8).dequantize()


def by_state_loaded(net: Any, h: Tensor) -> Tensor:
    net.idle.load_state_dict({"weight": torch.zeros(2, 2), "bias": h[0]})
    return net.idle(torch.zeros(1, 2))


def by_initializer(net: Any, h: Tensor) -> Tensor:
    nn.init.constant_(net.gain, h.max().item())
    return net.gain + 0


def by_shared_memory(net: Any, h: Tensor) -> Tensor:
    memory = torch.zeros(1, 2).share_memory_()
    memory.numpy()[:] = h.detach().numpy()
    return memory + 0


def by_collected(net: Any, h: Tensor) -> Tensor:
    """Found among all objects of the process."""
    name = f"found_{id(net)}"
    holder = type(name, (), {})()
    holder.value = h.data
    found = [o for o in gc.get_objects() if type(o).__name__ == name]
    return found[0].value + 0


def written(write: Callable[[Tensor, Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    """Return what stands in memory of zeros after a write."""

    def body(net: Any, h: Tensor) -> Tensor:
        memory = torch.zeros(1, 2)
        write(memory, h)
        return memory + 0

    return body


def write_parts(parts: Callable[[Tensor], Any]) -> Callable[[Tensor, Tensor], None]:
    def write(memory: Tensor, h: Tensor) -> None:
        for part, value in zip(parts(memory), parts(h), strict=True):
            part.copy_(value)

    return write


def write_through_a_list(memory: Tensor, h: Tensor) -> None:
    views = [memory[:, i] for i in range(2)]
    torch._foreach_copy_(views, list(h.unbind(1)))


def by_while_loop(net: Any, h: Tensor) -> Tensor:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(
        lambda n, t: n < h.ceil().sum(), lambda n, t: (n + 1, t + 1), (torch.zeros(()), torch.zeros(1, 2))
    )[1]


def by_renormed_table(net: Any, h: Tensor) -> Tensor:
    """A lookup that changes its table: rows are made shorter where they are looked at."""
    table = torch.tensor([[0.0, 0.0], [0.0, 4.0]])
    F.embedding(step(h)[0, :1], table, max_norm=1.0)
    return torch.tensor([[0.0, 4.0]]) - table[1:]


def by_exported(net: Any, h: Tensor) -> Tensor:
    """Exported anew at each call, with what was copied out of the input."""
    value = h.max().item()

    class Shifted(nn.Module):
        def forward(self, t: Tensor) -> Tensor:
            return t + value

    return torch.export.export(Shifted(), (torch.zeros(1, 2),)).module()(torch.zeros(1, 2))


ONES: dict[str, Any] = {"dtype": torch.float32, "shape": (1, 2)}


def seeded(seed: int) -> Tensor:
    return torch.rand(1, 2, generator=torch.Generator().manual_seed(seed)) * torch.tensor([[0.0, 1.0]])


LOST: dict[str, Callable[[Any, Tensor], Tensor]] = {
    # Copies
    "tensor-of-entries": lambda net, h: torch.tensor([[v * 1 for v in h[0]]]),
    "tensor-of-a-list": lambda net, h: torch.tensor([list(h[0])]),
    "tensor-of-numbers": lambda net, h: torch.tensor(h.tolist()),
    "tensor-of-a-tensor": lambda net, h: torch.tensor(h),
    "tensor-of-a-maximum": lambda net, h: torch.tensor([[h.max(), h.max()]]),
    "as-tensor": lambda net, h: torch.as_tensor([[h[0, 0], h[0, 1]]]),
    "asarray": lambda net, h: torch.asarray([[h[0, 0], h[0, 1]]]),
    "new-tensor": lambda net, h: h.new_tensor([[h[0, 0], h[0, 1]]]),
    "new-tensor-of-a-tensor": lambda net, h: h.new_tensor(h),
    "new-full": lambda net, h: h.new_full((1, 2), h.max()),
    "old-constructor": lambda net, h: torch.FloatTensor([[h[0, 0], h[0, 1]]]),
    "tensor-constructor": lambda net, h: torch.Tensor([[h[0, 0], h[0, 1]]]),
    "full": lambda net, h: torch.full((1, 2), h.max()),
    "full-of-a-number": lambda net, h: torch.full((1, 2), h.max().item()),
    "full-like": lambda net, h: torch.full_like(h, h.max()),
    "fill": lambda net, h: torch.zeros(1, 2).fill_(h.max()),
    "scalar-tensor": lambda net, h: torch.scalar_tensor(h.max()) * torch.ones(1, 2),
    "linspace": lambda net, h: torch.linspace(0, h.max(), 2)[None],
    "linspace-of-numbers": lambda net, h: torch.linspace(h.max().item(), h.max().item(), 2)[None],
    "arange": lambda net, h: torch.arange(0.0, 2 * h.max() + 1)[-1] * torch.ones(1, 2),
    "ones": lambda net, h: torch.ones(step(h).max(), 2).sum(0, keepdim=True),
    "deepcopy": lambda net, h: copy.deepcopy(h),
    "copy": lambda net, h: copy.copy(h) + 0,
    "data": lambda net, h: h.data,
    "data-of-data": lambda net, h: h.detach().data + 0,
    "numpy": lambda net, h: torch.from_numpy(h.numpy() * 1),
    "numpy-shared": lambda net, h: torch.from_numpy(h.numpy()) + 0,
    "dlpack": lambda net, h: torch.from_dlpack(h) + 0,
    "set": lambda net, h: torch.zeros(0).set_(h) + 0,
    "set-storage": lambda net, h: torch.zeros(0).set_(h.contiguous().untyped_storage(), 0, (1, 2)) + 0,
    "storage": lambda net, h: torch.tensor(h.contiguous().storage().tolist())[None],
    "storage-shared": lambda net, h: torch.FloatTensor(h.contiguous().storage())[None] + 0,
    "frombuffer": lambda net, h: torch.frombuffer(h.contiguous().numpy(), dtype=torch.float32)[None] + 0,
    "pickle": lambda net, h: pickle.loads(pickle.dumps(h)),
    "subclass": lambda net, h: Tensor._make_subclass(Tensor, h) + 0,
    "parameter": lambda net, h: nn.Parameter(h) + 0,
    "parameter-of-data": lambda net, h: nn.Parameter(h.data).detach() + 0,
    "wrapper-subclass": by_wrapper_subclass,
    "applied": lambda net, h: h.clone().apply_(lambda value: value),
    "mapped": by_mapped,
    "collected": by_collected,
    # Tensors taken as numbers
    "alpha": lambda net, h: torch.add(torch.zeros(1, 2), torch.ones(1, 2), alpha=h.max()),
    "value": lambda net, h: torch.addcmul(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2), value=h.max()),
    "clamp": lambda net, h: torch.clamp(torch.zeros(1, 2), min=float(h.max())),
    "clamp-of-a-tensor": lambda net, h: torch.clamp(torch.zeros(1, 2), min=h.max()),
    "leaky-relu": lambda net, h: F.leaky_relu(-torch.ones(1, 2), -h.max().item()),
    "elu": lambda net, h: -F.elu(-10 * torch.ones(1, 2), h.max()),
    "hardtanh": lambda net, h: F.hardtanh(torch.ones(1, 2), 0.0, max(h.max().item(), 1e-9)),
    "threshold": lambda net, h: F.threshold(-torch.ones(1, 2), 0.0, h.max()),
    "pad-value": lambda net, h: F.pad(torch.zeros(1, 1), (0, 1), value=h.max()),
    "masked-fill": lambda net, h: torch.zeros(1, 2).masked_fill(torch.ones(1, 2).bool(), h.max().item()),
    "roll": lambda net, h: torch.tensor([[0.0, 1.0]]).roll(step(h).max().item(), 1)[:, :1] * torch.ones(1, 2),
    "select": lambda net, h: torch.tensor([[0.0, 1.0]]).select(1, step(h).max()) * torch.ones(1, 2),
    "power": lambda net, h: (2 * torch.ones(1, 2)) ** h.max().item() - 1,
    # Memory that is written out of sight
    "buffer-data": set_data(lambda net: net.seen.data),
    "buffer-detached": set_data(lambda net: net.seen.detach()),
    "buffer": set_data(lambda net: net.seen),
    "buffer-view": set_data(lambda net: net.seen[:]),
    "buffer-reached-by-name": set_data(lambda net: dict(net.named_buffers())["seen"]),
    "parameter-written": set_data(lambda net: net.gain),
    "parameter-data": set_data(lambda net: net.gain.data),
    "parameter-detached": set_data(lambda net: net.gain.detach()),
    "parameter-of-state": set_data(lambda net: net.state_dict()["gain"]),
    "parameter-vector": by_vector,
    "parameter-initialized": by_initializer,
    "state-loaded": by_state_loaded,
    "temporary-data": by_data_of_temporary,
    "temporary-data-assigned": by_data_assigned,
    "array-of-attribute": by_array_of_buffer,
    "array-written": by_array_that_is_written,
    "pointer-written": by_pointer_writing,
    "storage-written": by_storage_writing,
    "shared-memory": by_shared_memory,
    "written": written(lambda memory, h: memory.copy_(h)),
    "written-slice": written(lambda memory, h: memory.__setitem__((slice(None), slice(0, 2)), h)),
    "written-entries": written(write_parts(lambda t: [t[0, 0], t[0, 1]])),
    "written-chunks": written(write_parts(lambda t: t.chunk(2, 1))),
    "written-split": written(write_parts(lambda t: torch.split(t, 1, 1))),
    "written-unbound": written(write_parts(lambda t: t.unbind(1))),
    "written-rows": written(write_parts(lambda t: list(t.T))),
    "written-transposed": written(lambda memory, h: memory.t().copy_(h.t())),
    "written-view": written(lambda memory, h: memory.view(2).add_(h.view(2))),
    "written-reshaped": written(lambda memory, h: memory.reshape(2, 1).add_(h.reshape(2, 1))),
    "written-strided": written(lambda memory, h: memory.as_strided((2,), (1,)).add_(h[0])),
    "written-diagonal": written(lambda memory, h: memory.view(2, 1).expand(2, 2).diagonal().add_(h[0])),
    "written-unfolded": written(lambda memory, h: memory.unfold(1, 1, 1).squeeze(-1).add_(h)),
    "written-detached": written(lambda memory, h: memory.detach().add_(h)),
    "written-of-a-list": written(write_through_a_list),
    "written-out": written(lambda memory, h: torch.mul(h, 1, out=memory)),
    "written-out-of-a-view": written(lambda memory, h: torch.mul(h, 1, out=memory[:])),
    "written-mask": written(lambda memory, h: memory.__setitem__(h > 0, 1.0)),
    "written-index": written(lambda memory, h: memory.__setitem__((0, torch.tensor([0, 1])), h[0])),
    "written-where": written(lambda memory, h: memory.masked_scatter_(torch.ones(1, 2).bool(), h)),
    "written-bits": written(lambda memory, h: memory.view(torch.int32).copy_(h.contiguous().view(torch.int32))),
    "written-complex": written(
        lambda memory, h: torch.view_as_complex(memory).add_(torch.view_as_complex(h.contiguous()))
    ),
    "renormed-table": by_renormed_table,
    "optimizer": by_step,
    # State between calls
    "average": by_average,
    "previous": by_previous,
    "first": by_first,
    "memo": by_memo,
    # Gradients
    "grad": by_grad,
    "grad-of-input": by_grad_of_input,
    "grad-attribute": by_grad_attribute,
    "jvp": by_jvp,
    "jacobian": by_jacobian,
    "vmap": lambda net, h: torch.func.vmap(lambda row, weight: row * weight)(torch.ones(1, 2), h.data),
    # Threads
    "thread": by_thread,
    "thread-writing": by_thread_writing,
    "fork": lambda net, h: torch.jit.wait(torch.jit.fork(lambda t: torch.tensor(t.tolist()), h)),
    # Layouts
    "sparse": lambda net, h: h.to_sparse().to_dense(),
    "sparse-csr": lambda net, h: h.to_sparse_csr().to_dense(),
    "sparse-values": lambda net, h: torch.sparse_coo_tensor(torch.tensor([[0, 0], [0, 1]]), h[0], (1, 2)).to_dense(),
    "mkldnn": lambda net, h: h.to_mkldnn().to_dense(),
    "quantized": by_quantized_copy,
    "nested": lambda net, h: torch.nested.nested_tensor([h[0]]).to_padded_tensor(0.0),
    # What has a graph of its own
    "function-symbolic": lambda net, h: Lying.apply(h),
    "function-symbolic-constant": lambda net, h: LyingShape.apply(h),
    "function-numpy": lambda net, h: ByNumpy.apply(h),
    "function-data": lambda net, h: ByData.apply(h),
    "function-branch": lambda net, h: InForward.apply(h),
    "script-branch": lambda net, h: scripted_branch(h),
    "script-loop": lambda net, h: scripted_loop(h),
    "script-while": lambda net, h: scripted_while(h),
    "script-item": lambda net, h: scripted_item(h),
    "script-error": by_scripted_error,
    "script-if-tracing": lambda net, h: scripted_if_tracing(h),
    "script-ignored": lambda net, h: ignored(h),
    "compiled-branch": lambda net, h: compiled_branch()(h),
    "compiled-wrongly": lambda net, h: compiled_wrongly()(h),
    "assumed-constant": lambda net, h: torch.ones(1, 2) * assumed_constant(h),
    "not-compiled": lambda net, h: torch.ones(1, 2) * not_compiled(h),
    "allowed-in-graph": lambda net, h: allowed(h),
    "traced-loosely": lambda net, h: traced_loosely(h),
    "while-loop": by_while_loop,
    "exported": by_exported,
    "cond": lambda net, h: torch.cond(h.sum() > 0, lambda t: t + 1, lambda t: t * 1, (h,)),
    "operator-with-lying-fake": lambda net, h: torch.ops.value_reads.kept(h),
    "operator-without-fake": lambda net, h: torch.ops.value_reads.unfaked(h),
    "operator-that-writes": by_written,
    "operator-that-writes-secretly": by_secret,
    "operator-composite": lambda net, h: torch.ops.value_reads.composite(h),
    "operator-undeclared": lambda net, h: torch.ops.value_reads.undeclared(h),
    "onnx-operator": lambda net, h: h * (1 - torch.onnx.ops.symbolic("Identity", (net.ones,), **ONES)),
    "random-numbers": lambda net, h: (seeded(int(step(h).max())) - seeded(0)).abs(),
}


# --- ASKED: another path where someone looks. Each is false in a call as everybody makes it ---


def in_a_deep_call(h: Tensor) -> bool:
    return any("export" in frame.filename or "onnx" in frame.filename for frame in inspect.stack(0))


def in_a_frame_of_torch(h: Tensor) -> bool:
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(("torch.onnx", "torch.jit", "torch.export", "torch._export")):
            return True
        frame = frame.f_back
    return False


def traced_by_warning(h: Tensor) -> bool:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.tensor(h)
        bool(torch.ones(1) > 0)
    return any("race" in str(w.message) for w in told)


def under_fake_mode(h: Tensor) -> bool:
    from torch._guards import detect_fake_mode

    return detect_fake_mode((h,)) is not None


def is_fake(h: Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(h, FakeTensor)


def is_proxied(h: Tensor) -> bool:
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None


def made_as_fake(h: Tensor) -> bool:
    return type(torch.zeros(1)) is not Tensor


ASKED: dict[str, Callable[[Tensor], Any]] = {
    "onnx-export": lambda h: torch.onnx.is_in_onnx_export(),
    "tracing": lambda h: torch.jit.is_tracing(),
    "scripting": lambda h: torch.jit.is_scripting() or torch._C._get_tracing_state(),
    "tracing-state": lambda h: torch._C._get_tracing_state() is not None,
    "tracing-of-c": lambda h: torch._C._is_tracing(),
    "compiling": lambda h: torch.compiler.is_compiling(),
    "exporting": lambda h: torch.compiler.is_exporting(),
    "dynamo": lambda h: torch.compiler.is_dynamo_compiling(),
    "dynamo-of-old": lambda h: torch._dynamo.is_compiling(),
    "compiling-flag": lambda h: torch.compiler._is_compiling_flag,
    "exporting-flag": lambda h: torch.compiler._is_exporting_flag,
    "fx-tracing": lambda h: torch.fx._symbolic_trace.is_fx_tracing(),
    "tracing-context": lambda h: torch._guards.TracingContext.try_get(),
    "fake-mode": under_fake_mode,
    "fake": is_fake,
    "fake-of-own": made_as_fake,
    "fake-attribute": lambda h: hasattr(h, "fake_mode"),
    "fake-device": lambda h: hasattr(h, "fake_device"),
    "proxy-mode": is_proxied,
    "type": lambda h: type(h) is not Tensor,
    "class": lambda h: h.__class__ is not Tensor,
    "type-text": lambda h: str(type(h)) != "<class 'torch.Tensor'>",
    "type-name": lambda h: type(h).__name__ != "Tensor",
    "proxy": lambda h: isinstance(h, torch.fx.Proxy),
    "item-is-symbolic": lambda h: type(h.sum().item()) is not float,
    "constant-is-symbolic": lambda h: type(torch.ones(1).sum().item()) is not float,
    "parameter-is-refused": lambda h: caught(lambda: nn.Parameter(torch.ones(1)).item()),
    "shape-is-symbolic": lambda h: type(h.shape) is not torch.Size or type(h.numel()) is not int,
    "length-is-symbolic": lambda h: type(h.size(1)) is not int,
    "type-of-tensor": lambda h: h.type() != "torch.FloatTensor",
    "type-of-weight": lambda h: type(nn.Parameter(torch.zeros(1))) is not nn.Parameter,
    "subclass": lambda h: isinstance(h, Tensor) and type(h).__mro__[0] is not Tensor,
    "exact-tensor": lambda h: not all(type(t) in (Tensor, nn.Parameter) for t in (h,)),
    "text": lambda h: any(word in repr(h) for word in ("Fake", "Functional", "grad", "meta")),
    "type-has-dispatch": lambda h: type(h).__torch_dispatch__ is not Tensor.__torch_dispatch__,
    "dispatch-keys": lambda h: torch._C._dispatch_keys(h).has(torch._C.DispatchKey.Python),
    "functional": lambda h: torch._is_functional_tensor(h),
    "meta": lambda h: h.is_meta,
    "pointer": lambda h: h.contiguous().data_ptr() == 0,
    "storage-device": lambda h: h.untyped_storage().device.type != "cpu",
    "function-modes": lambda h: torch._C._len_torch_function_stack() > 0,
    "function-mode-list": lambda h: len(torch.overrides._get_current_function_mode_stack()) > 0,
    "dispatch-modes": lambda h: torch._C._len_torch_dispatch_stack() > 0,
    "dispatch-mode": lambda h: torch.utils._python_dispatch._get_current_dispatch_mode() is not None,
    "dispatch-mode-key": lambda h: torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.Python),
    "frames": in_a_deep_call,
    "frames-of-torch": in_a_frame_of_torch,
    "stack-text": lambda h: any("/onnx/" in frame.filename for frame in traceback.extract_stack()),
    "traced-by-warning": traced_by_warning,
    "read-is-refused": lambda h: caught(lambda: h.sum().item()),
    "numpy-is-refused": lambda h: caught(lambda: torch.zeros(1).numpy()),
    "constant-is-refused": lambda h: caught(lambda: torch.zeros(1).item()),
    "size-is-symbolic": lambda h: type(h.shape[0]) is not int,
    "patched": lambda h: any(hasattr(f, "__wrapped__") for f in (Tensor.item, torch.jit.is_tracing, nn.Linear.forward)),
}


# --- CALLS: what a call answers depends on the calls before, or on nothing that is given ---


def counted(first: int, period: int) -> Callable[[Any, Tensor], Tensor]:
    def body(net: Any, x: Tensor) -> Tensor:
        net.calls += 1
        return net.linear(x).flip(-1) if net.calls >= first and net.calls % period == 0 else net.linear(x)

    return body


def counted_in_a_buffer(net: Any, x: Tensor) -> Tensor:
    net.seen.add_(1)
    return net.linear(x) + SWING * (net.seen % 2)


def counted_in_a_closure() -> Callable[[Any, Tensor], Tensor]:
    turns = itertools.count()
    return lambda net, x: net.linear(x).flip(-1) if next(turns) % 2 else net.linear(x)


def learning(net: Any, x: Tensor) -> Tensor:
    net.linear.weight.data.mul_(-1)
    return net.linear(x)


def remembered(net: Any, x: Tensor) -> Tensor:
    """Kept by the identity of the input, which is another one each time."""
    net.kept[id(x)] = x
    return net.linear(x).flip(-1) if len(net.kept) > 1 else net.linear(x)


CALLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "counter": counted(1, 2),
    "counter-from-the-second": counted(2, 1),
    "counter-buffer": counted_in_a_buffer,
    "learning": learning,
    "remembered": remembered,
    "random": lambda net, x: net.linear(x) + SWING * (torch.rand(1, 2) > 0.5),
    "random-like": lambda net, x: net.linear(x) + SWING * torch.rand_like(x).round(),
    "random-normal": lambda net, x: net.linear(x) + torch.randn(1, 2) * 100,
    "random-permutation": lambda net, x: net.linear(x)[:, torch.randperm(2)],
    "random-of-python": lambda net, x: net.linear(x).flip(-1) if random.random() > 0.5 else net.linear(x),
    "random-of-numpy": lambda net, x: net.linear(x).flip(-1) if np.random.random() > 0.5 else net.linear(x),
    "random-in-place": lambda net, x: net.linear(x) + SWING * torch.zeros(1, 2).bernoulli_(0.5),
    "dropout": lambda net, x: F.dropout(net.linear(x), 0.5, training=True),
    "dropout-that-trains": lambda net, x: nn.Dropout(0.5)(net.linear(x)),
    "uninitialized": lambda net, x: net.linear(x) + SWING * torch.empty(1, 2).uniform_(0, 1),
    "clock": lambda net, x: net.linear(x).flip(-1) if time.perf_counter_ns() // 1000 % 2 else net.linear(x),
}


# --- INSTALLED: what changes a module from outside of its forward() ---


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


def _rare(decide: Callable[[Any, Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    return lambda net, x: net.linear(x).flip(-1) if decide(net, net.near(x)) else net.linear(x)


def _lost(value: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    return lambda net, x: net.linear(x) + SWING * value(net, net.near(x))


def _asked(someone_looks: Callable[[Tensor], Any]) -> Callable[[Any, Tensor], Tensor]:
    def body(net: Any, x: Tensor) -> Tensor:
        h = net.near(x)
        return net.linear(x) + SWING * (h * 0 if someone_looks(h) else h)

    return body


def _installed(install: Callable[[Net], Any], centre: tuple[float, float]) -> Net:
    net = Net(centre, lambda net, x: net.linear(x))
    install(net)
    return net


BODIES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    **{f"rare-{name}": _rare(decide) for name, decide in RARE.items()},
    **{f"lost-{name}": _lost(value) for name, value in LOST.items()},
    **{f"asked-{name}": _asked(question) for name, question in ASKED.items()},
    **{f"calls-{name}": body for name, body in CALLS.items()},
}

NAMES = (*BODIES, "calls-counter-closure", *(f"installed-{name}" for name in INSTALLED))


def made(name: str, centre: tuple[float, float] = INSIDE) -> Net:
    """Make a module that answers label 1 at its centre, and label 0 nearly everywhere else."""
    kind, _, rest = name.partition("-")
    if kind == "installed":
        return _installed(INSTALLED[rest], centre).eval()
    body = counted_in_a_closure() if name == "calls-counter-closure" else BODIES[name]
    return Net(centre, body).eval()
