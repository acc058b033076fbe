"""Copies, writes and states that a graph may hold as a constant: each returns `h` or something like it."""

from __future__ import annotations

import concurrent.futures
import copy
import ctypes
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree

from model.value_reads.net import step


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


def by_first_attribute(net: Any, h: Tensor) -> Tensor:
    if net.first is None:
        net.first = h.clone()
    return net.first


def by_shape_memo(net: Any, h: Tensor) -> Tensor:
    """What is kept by shape holds the values of the first call."""
    return net.kept.setdefault(h.shape, h.clone())


def by_memo(net: Any, h: Tensor) -> Tensor:
    """Kept under a key that is the same for all values, but for the first of them."""
    key = float(h.max())
    return net.kept.setdefault(key, torch.full((1, 2), key))


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
    found = [o for o in gc.get_referrers(type(holder)) if type(o).__name__ == name]
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


def by_renormed_table(net: Any, h: Tensor) -> Tensor:
    """A lookup that changes its table: rows are made shorter where they are looked at."""
    table = torch.tensor([[0.0, 0.0], [0.0, 4.0]])
    F.embedding(step(h)[0, :1], table, max_norm=1.0)
    return torch.tensor([[0.0, 4.0]]) - table[1:]


def seeded(seed: int) -> Tensor:
    return torch.rand(1, 2, generator=torch.Generator().manual_seed(seed)) * torch.tensor([[0.0, 1.0]])


COPIES: dict[str, Callable[[Any, Tensor], Tensor]] = {
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
    "first-attribute": by_first_attribute,
    "memo-by-shape": by_shape_memo,
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
    "random-numbers": lambda net, h: (seeded(int(step(h).max())) - seeded(0)).abs(),
}
