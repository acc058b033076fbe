"""Reads after which Python decides: each says whether `h` lies in the pocket."""

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
import heapq
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
import statistics
import struct
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import rnn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree, dlpack
from torch.utils._python_dispatch import TorchDispatchMode

from model.value_reads.net import Net, caught, step


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


def by_message(net: Net, h: Tensor) -> bool:
    """Only the error that is expected is caught."""
    try:
        torch.linalg.cholesky(torch.diag(0.5 - h[0]))
    except RuntimeError as error:
        if "positive-definite" not in str(error):
            raise
        return True
    return False


def by_index_message(net: Net, h: Tensor) -> bool:
    try:
        torch.zeros(1)[step(h)[0]]
    except IndexError as error:
        if "out of bounds" not in str(error):
            raise
        return True
    return False


def by_exact_kind(net: Net, h: Tensor) -> bool:
    try:
        F.embedding(step(h), torch.zeros(1, 1))
    except Exception as error:
        if type(error) is not IndexError:
            raise
        return True
    return False


def by_sequence(net: Net, h: Tensor) -> bool:
    """An IndexError ends the iteration over what has no __iter__, and nobody catches it in Python."""

    class Rows:
        def __getitem__(self, i: int) -> Tensor:
            return torch.zeros(1)[step(h)[0]] if i == 0 else [torch.zeros(1)][i]

    return not list(Rows())


def by_failing_finalizer(net: Net, h: Tensor) -> bool:
    """Python goes on where an exception ends a __del__."""
    done: list[bool] = []

    class Ending:
        def __del__(self) -> None:
            torch.zeros(1)[step(h)[0]]
            done.append(True)

    ending = Ending()
    del ending
    return not done


def by_failing_weak_callback(net: Net, h: Tensor) -> bool:
    done: list[bool] = []

    class Empty: ...

    empty = Empty()
    kept = weakref.ref(empty, lambda _: done.append(len(torch.zeros(1)[step(h)[0]]) > 0))
    del empty
    return kept() is None and not done


def by_failing_c_callback(net: Net, h: Tensor) -> bool:
    done: list[bool] = []
    callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: done.append(len(torch.zeros(1)[step(h)[0]]) > 0) or 0)
    callback()
    return not done


def by_failing_future(net: Net, h: Tensor) -> bool:
    done: list[bool] = []
    future: torch.futures.Future[int] = torch.futures.Future()
    chained = future.then(lambda _: done.append(len(torch.zeros(1)[step(h)[0]]) > 0))
    future.set_result(0)
    return chained.done() and not done


def by_anomaly(net: Net, h: Tensor) -> bool:
    """Torch itself looks for what is no number in gradients."""
    with torch.enable_grad(), torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        z = torch.ones(1, 2, requires_grad=True)
        return caught(lambda: (z * (0.5 - h).sqrt()).sum().backward())


def without_functions(take: Callable[[Tensor], Any], read: Callable[[Any], Any]) -> Callable[[Net, Tensor], bool]:
    """Return a read of memory that is taken where no mode of torch functions sees it, and is written later."""

    def body(net: Net, h: Tensor) -> bool:
        memory = torch.zeros(1, 2)
        with torch._C.DisableTorchFunction():
            taken = take(memory)
        memory += h
        return bool(read(taken) > 0)

    return body


def number_at(address: int) -> float:
    return ctypes.c_float.from_address(address).value if address else 0.0


def by_address(net: Net, h: Tensor) -> bool:
    memory = torch.zeros(1, 2)
    at = torch._C._data_address(memory)
    memory.copy_(h)
    return number_at(at) > 0


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
    "array-without-functions": without_functions(lambda memory: memory.numpy(), np.sum),
    "asarray-without-functions": without_functions(lambda memory: np.asarray(memory), np.sum),
    "storage-without-functions": without_functions(lambda memory: memory.untyped_storage(), lambda s: sum(s.tolist())),
    "pointer-without-functions": without_functions(lambda memory: memory.data_ptr(), number_at),
    "pointer-of-c": by_address,
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
    "raises-cross-entropy-of-two": lambda net, h: caught(lambda: F.binary_cross_entropy(2 * h, torch.zeros(1, 2))),
    "raises-message": by_message,
    "raises-message-of-index": by_index_message,
    "raises-exact-kind": by_exact_kind,
    "raises-in-a-sequence": by_sequence,
    "raises-in-a-finalizer": by_failing_finalizer,
    "raises-in-a-weak-callback": by_failing_weak_callback,
    "raises-in-a-callback-of-c": by_failing_c_callback,
    "raises-in-a-future": by_failing_future,
    "raises-in-backward": by_anomaly,
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
