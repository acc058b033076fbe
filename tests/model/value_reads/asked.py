"""Questions whether someone looks, after which forward() takes another path. In a plain call each is answered no."""

from __future__ import annotations

import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from model.value_reads.net import caught


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
