"""Runs of a module's own forward() under watch: on ordinary numbers, and on an input that has no values.

A graph can follow what torch computes, not what Python decides. So forward() is run on an input that has a shape and a
type but no values (one of torch's fake tensors), while parameters and constants keep theirs. Whatever asks for a value
of the input is noted with its line, also where forward() catches the exception. Memory that is read without torch's
knowledge (shared with numpy, kept beyond the call, handed to a thread) would let values escape: that is noted too.

Two more ways to decide show in no single run. Python can tell a fake tensor from a real one (`type(x) is Tensor`), so a
run on ordinary numbers must make the same calls of torch with the same arguments. And an exception decides
(`try: table[i] except IndexError`), so each operation that fails for some values is made to fail once: forward() must
not go on.
"""

from __future__ import annotations

import copy
import dis
import functools
import gc
import hashlib
import logging
import os
import re
import sys
import sysconfig
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch._C import DisableTorchFunction
from torch._C import _functorch as functorch
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

# Frames that are not the user's: torch, what it calls, and Python's own library.
_PACKAGES = Path(torch.__path__[0]).parent
_OWN = f"{Path(__file__).parents[2]}{os.sep}"  # all of netproof
_INSIDE = (*(f"{_PACKAGES / name}{os.sep}" for name in ("torch", "numpy", "sympy", "mpmath", "networkx")), _OWN)
_MACHINERY = (  # calls the user's code in passing, in one kind of run alone
    *(f"{_PACKAGES / 'torch' / name}{os.sep}" for name in ("fx", "_subclasses", "_export", "_dynamo", "_functorch")),
    logging.__file__,
    __file__,
)
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = (f"{_STANDARD}site-packages{os.sep}", f"{_STANDARD}dist-packages{os.sep}")

# These hand out a tensor's memory, or its numbers as a text or a copy, without an operation that torch would show.
_COPIES = frozenset(("tolist", "__repr__", "__str__", "__format__", "__deepcopy__", "__reduce__", "__reduce_ex__"))
_MEMORY = frozenset(
    (
        *("numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage", "_typed_storage"),
        *("share_memory_", "__cuda_array_interface__"),
    )
)

# Functions whose results have as many entries as the values say: of constants, they are what they are.
_SIZED = frozenset(
    ("nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "repeat_interleave", "bincount")
)

# Properties that are tensors.
_TENSORS = frozenset(("data", "T", "mT", "H", "mH", "real", "imag", "grad"))

# Operations that raise an exception for some floats. (Of integers and truth values any may: an index, a divisor.)
_MAY_FAIL = re.compile(
    r"_?linalg|cholesky|inverse|::_?lu_|logdet|multinomial|bernoulli|normal|poisson|binomial|exponential|geometric|dirichlet"
    r"|gamma|cauchy|uniform|random|_assert|hist|quantile|cross_entropy|_loss|max_unpool|pack_padded|triangular|ormqr"
)

_KNOWN = frozenset(("aten", "prim", "prims", "profiler"))  # torch's own operations

# Of these, none does for any values.
_NEVER_FAILS = re.compile(
    r"aten::(eq|ne|lt|le|gt|ge|logical_\w+|bitwise_(and|or|xor|not)|where|masked_fill_?|add|sub|rsub|mul|neg|abs|clamp\w*"
    r"|maximum|minimum|_to_copy|to|copy_?|clone|detach|alias|view|_unsafe_view|reshape|unsqueeze|squeeze|expand|permute"
    r"|transpose|t|slice|select|cat|stack|split\w*|unbind|sum|any|all|amax|amin|max|min|argmax|argmin|cumsum|sort|topk"
    r"|zeros_like|ones_like|full_like|empty_like|new_\w+|fill_?|zero_|flip|roll|repeat|isnan|isinf|sign|ceil|floor|round"
    r"|linalg_vector_norm|ScalarImplicit|lift_fresh\w*|contiguous|diagonal|tril|triu)(\.\w+)?"
)

MOST_TRIALS = 16  # operations that are made to fail wherever they stand; of more, those within `try` or `with`
MOST_HASHED = 1 << 14  # entries of a constant that are compared between runs

LOOKS = "looks at values of its input"
KEEPS = "writes values of its input where they are kept or read without torch,"
CHANGES = "changes a parameter, a buffer or something else that it keeps, so that one call differs from the next,"
REMEMBERS = "reads what an earlier call has kept of its input"
THREADS = "computes with its input in another thread"
CATCHES = "goes on where an operation fails for some values of its input,"
DIFFERS = "takes another path when its input has no values,"
COMPILES = "is compiled by a back end that is not torch's"


REMEDIES = {
    KEEPS: "copy what forward() computes within torch, and return it instead of keeping it",
    CHANGES: "keep counters and statistics out of forward()",
    REMEMBERS: "compute from the input of this call alone",
    THREADS: "compute in the thread that calls forward()",
    COMPILES: "give the module as it was before it was compiled",
}
REMEDY = "write it with tensor operations such as torch.where, or verify each case as a separate module"


@dataclass(frozen=True)
class Note:
    """Something that a graph cannot follow, and where forward() does it."""

    what: str
    place: str  # FILE:LINE

    @property
    def remedy(self) -> str:
        return REMEDIES.get(self.what, REMEDY)


@dataclass(eq=False)
class Call:
    """A call of a torch function by Python code."""

    name: str
    arguments: Any  # shapes and types stand for tensors
    place: str
    known: tuple[Any, ...] = ()  # of each tensor that does not depend on the input, what tells it from others
    outcome: str = ""  # "returned", or the exception's name
    answer: Any = None  # where it is plain data, such as a number
    places: Sequence[tuple[Tensor, ...]] = ()  # where masks that it selects by are true

    def same_as(self, other: Call) -> bool:
        same = all(a == b for a, b in zip(self.known, other.known, strict=False) if a is not None and b is not None)
        return same and (self.name, self.arguments, self.outcome) == (other.name, other.arguments, other.outcome)


@dataclass(eq=False)
class Steps:
    """The steps of the user's own code: eight bytes each, since there may be millions, and nothing to collect."""

    codes: list[CodeType] = field(default_factory=list)  # in the order in which they are first entered
    taken: array[int] = field(default_factory=partial(array, "Q"))  # the place of a code, and where in its bytecode
    _places: dict[int, int] = field(default_factory=dict)  # by id, which lasts as long as the code is kept

    def enter(self, code: CodeType) -> int:
        """Return what every step in this code begins with."""
        place = self._places.setdefault(id(code), len(self.codes))
        if place == len(self.codes):
            self.codes.append(code)
        return place << 32

    def beside(self, other: Steps) -> str | None:
        """Return the first place where other steps go another way."""
        if self.taken == other.taken and self.codes == other.codes:
            return None
        for k, (mine, theirs) in enumerate(zip_longest(self.taken, other.taken)):
            if mine != theirs or self.codes[mine >> 32] != other.codes[theirs >> 32]:
                return (self if self.taken else other)._place(max(0, k - 1))
        return None

    def _place(self, k: int) -> str:
        code, step = self.codes[self.taken[k] >> 32], self.taken[k] & 0xFFFFFFFF
        lines = [line for start, end, line in code.co_lines() if start <= step < end]
        return f"{code.co_filename}:{lines[0] if lines else code.co_firstlineno}"


@dataclass(eq=False)
class Run:
    """What one run of forward() did."""

    calls: list[Call] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    steps: Steps = field(default_factory=Steps)
    may_fail: int = 0  # operations on the input that fail for some values
    failed: bool = False  # whether one of these was made to fail
    goes_on: str = ""  # where forward() goes on after that

    def note(self, what: str) -> None:
        self.notes.append(Note(what, _users_place()))

    def forget_answers_beside(self, hidden: Run) -> None:
        """Forget what a run without values did not answer in the same call: it depends on the input."""
        for mine, theirs in zip(self.calls, hidden.calls, strict=False):
            if theirs.answer is None:
                mine.answer = None
            if not theirs.places:
                mine.places = ()

    def difference(self, other: Run) -> str | None:
        """Return the first place where another run makes another call."""
        for mine, theirs in zip_longest(self.calls, other.calls):
            if mine is None or theirs is None or not mine.same_as(theirs):
                return str((mine or theirs).place)
        return None


class OtherPath(Exception):
    """A run that is made again does not make the calls of the earlier one."""

    def __init__(self, place: str) -> None:
        super().__init__(f"another path through forward() at {place}")
        self.place = place


class LookedAt(RuntimeError):
    """What forward() is told where it asks for a value that is not there."""


class _Trial(
    IndexError,
    KeyError,
    torch.linalg.LinAlgError,  # type: ignore[name-defined,misc]  # a RuntimeError
    NotImplementedError,
    ValueError,
    TypeError,
    AssertionError,
    ZeroDivisionError,
    OverflowError,
):
    """An exception as an operation raises it for some values, whichever forward() would catch."""


def watched(module: torch.nn.Module, x: Tensor) -> tuple[Run, Note | None]:
    """Run the module on x, (*input); return what it calls, and the first thing that no graph can follow."""
    plain, ordinary = Run(), Run()
    one, other = 0.875 * x, x.clone()  # another input, so that what one call keeps for the next is another constant
    with fresh(module), _Path(plain):
        module(one)
    with fresh(module), Calls(_Watch(ordinary, module, None)), _Path(ordinary):
        module(other)
    hidden = _without_values(module, x)
    if hidden.notes:
        return ordinary, hidden.notes[0]
    ordinary.forget_answers_beside(hidden)
    place = plain.steps.beside(hidden.steps) or ordinary.steps.beside(hidden.steps) or ordinary.difference(hidden)
    if place is not None:
        return ordinary, Note(DIFFERS, place)
    for nth in range(hidden.may_fail):
        trial = _without_values(module, x, failing=nth)
        if trial.goes_on:
            return ordinary, Note(CATCHES, trial.goes_on)
    return ordinary, None


def called(module: torch.nn.Module, x: Tensor) -> tuple[Any, Note | None]:
    """Call the module; return its answer, and whether it changed something that lasts.

    A module that keeps anything is called once more: a number that it counts with, or a buffer that it puts in the
    place of another, shows in no single call.
    """
    run = Run()
    watch = _Watch(run, module, None)
    with fresh(module) as is_changed, _undoing(watch), _Operations(watch):
        answer = module(x.clone())
        if is_changed() and not run.notes:
            with DisableTorchFunction():
                kept = _copied([_lasting(module), answer])
            again = module(x.clone())
            with DisableTorchFunction():
                if not _are_same(kept, [_lasting(module), again]):
                    run.notes.append(Note(CHANGES, _own_place(module)))
    return answer, next((note for note in run.notes if note.what == CHANGES), None)


@contextmanager
def _undoing(watch: _Watch) -> Iterator[None]:
    try:
        yield
    finally:
        watch.undo()


def _lasting(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers as they are now, by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _are_same(some: Any, others: Any) -> bool:
    """Say whether the tensors in both are the same, bit for bit."""
    pairs = [[leaf for leaf in tree_leaves(one) if isinstance(leaf, Tensor)] for one in (some, others)]
    return [t.shape for t in pairs[0]] == [t.shape for t in pairs[1]] and all(
        bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in zip(*pairs, strict=True)
    )


def _own_place(module: torch.nn.Module) -> str:
    """Return FILE:LINE where forward() begins."""
    code = getattr(module.forward, "__code__", None)
    return "forward()" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _without_values(module: torch.nn.Module, x: Tensor, failing: int | None = None) -> Run:
    """Run the module on an input like x that has no values; of the operations that may fail, `failing` does.

    A module that keeps anything is called once more, when it must not read what the first call has kept of its input.
    """
    run, again = Run(), Run()
    with fresh(module) as is_changed:
        _call_without_values(module, x, run, failing)
        if failing is None and not run.notes and is_changed():
            _call_without_values(module, x, again, None)
    run.notes += again.notes
    return run


def _call_without_values(module: torch.nn.Module, x: Tensor, run: Run, failing: int | None) -> None:
    # Memory that is not there must not be read.
    with functorch_config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
        fakes = _Fakes(run)
    watch = _Watch(run, module, fakes, failing)
    hidden = fakes.from_tensor(x)
    try:
        with _one_call(), _no_questions(run), _Operations(watch), Calls(watch), _Path(run):
            module(hidden)
        run.goes_on = run.goes_on or (type(module).__name__ if run.failed else "")
    except Exception as error:
        if not run.notes and not run.failed:
            run.notes.append(Note(_why(error), _raised_at(error)))


@contextmanager
def fresh(module: torch.nn.Module) -> Iterator[Callable[[], bool]]:
    """Undo what runs inside set on the module and its parts; what is yielded says whether anything was set.

    So every run is a first one, whatever forward() keeps for later, and no tensor without values stays behind.
    """
    scripted = [_Scripted.of(part) for part in module.modules() if isinstance(part, torch.jit.ScriptModule)]
    parts = [part for part in module.modules() if not isinstance(part, torch.jit.ScriptModule)]
    before = [(part.__dict__, _Content.of(part.__dict__)) for part in parts]
    try:
        yield (
            lambda: (
                any(part.changed for part in scripted)
                or not all(content.is_in(attributes) for attributes, content in before)
            )
        )
    finally:
        for attributes, content in before:
            content.restore(attributes)
        for part in scripted:
            part.restore()


@dataclass(frozen=True, eq=False)
class _Scripted:
    """What a scripted module keeps, of which Python has no dictionary."""

    part: torch.jit.ScriptModule
    attributes: dict[str, Any]

    @staticmethod
    def of(part: torch.jit.ScriptModule) -> _Scripted:
        names = part._concrete_type.get_attributes() if hasattr(part, "_concrete_type") else ()
        return _Scripted(part, {name: getattr(part, name) for name in names})

    @property
    def changed(self) -> list[str]:
        """Return the names of attributes that have another value now."""
        return [name for name, value in self.attributes.items() if not _is_it(value, getattr(self.part, name))]

    def restore(self) -> None:
        for name in self.changed:
            setattr(self.part, name, self.attributes[name])


def _is_it(value: Any, now: Any) -> bool:
    """Say whether both are the same tensors, and equal otherwise."""
    some, others = tree_leaves(value), tree_leaves(now)
    return len(some) == len(others) and all(
        a is b or (not isinstance(a, Tensor) and not isinstance(b, Tensor) and a == b)
        for a, b in zip(some, others, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Content:
    """What a container holds, and what is in containers in it."""

    entries: list[tuple[Any, Any]]  # of a dictionary, its items; else indices and entries
    inner: list[tuple[Any, _Content]]

    @staticmethod
    def of(container: Any, depth: int = 2) -> _Content:
        entries = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        inner = [v for _, v in entries if isinstance(v, dict | list | set | deque)] if depth else []
        return _Content(entries, [(one, _Content.of(one, depth - 1)) for one in inner])

    def is_in(self, container: Any) -> bool:
        """Say whether the container holds this, and nothing else."""
        return self._is_around(container) and all(content.is_in(one) for one, content in self.inner)

    def _is_around(self, container: Any) -> bool:
        now = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        return len(now) == len(self.entries) and all(a is c for (_, a), (_, c) in zip(now, self.entries, strict=True))

    def restore(self, container: Any) -> None:
        for one, content in self.inner:
            content.restore(one)
        if self._is_around(container):
            return
        container.clear()
        if isinstance(container, dict):
            container.update(self.entries)
        elif isinstance(container, list | deque):
            container.extend(value for _, value in self.entries)
        else:
            container.update(value for _, value in self.entries)


# Questions that tell a run under watch from an ordinary one, and ways to memory that is not there.
_QUESTIONS: tuple[tuple[Any, str], ...] = (
    *(
        (torch._C, name)
        for name in (
            *("_DisableTorchDispatch", "_len_torch_function_stack", "_len_torch_dispatch_stack", "_get_dispatch_mode"),
            *("_get_dispatch_stack_at", "_get_function_stack_at", "_data_address", "_dispatch_keys"),
        )
    ),
    *((torch.overrides, name) for name in ("_get_current_function_mode", "_get_current_function_mode_stack")),
    *((_python_dispatch, name) for name in ("_get_current_dispatch_mode", "_get_current_dispatch_mode_stack")),
    *((torch._guards, name) for name in ("detect_fake_mode", "active_fake_mode")),
    *((torch._guards.TracingContext, name) for name in ("try_get", "get")),
    *((torch.fx._symbolic_trace, name) for name in ("is_fx_tracing", "is_fx_symbolic_tracing")),
    (proxy_tensor, "get_proxy_mode"),
)


@contextmanager
def _no_questions(run: Run) -> Iterator[None]:
    """Note where the user's code asks whether it is watched, or goes around what sees the operations."""

    def answered(question: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(question)
        def asked(*args: Any, **kwargs: Any) -> Any:
            if _is_users(sys._getframe(1)):
                run.note(DIFFERS)
                raise LookedAt("forward() must not depend on how it is run")
            return question(*args, **kwargs)

        return asked

    with ExitStack() as stack:
        for owner, name in _QUESTIONS:
            if hasattr(owner, name):
                stack.enter_context(patch.object(owner, name, answered(getattr(owner, name))))
        stack.enter_context(_no_foreign_compiler(run))
        yield


@contextmanager
def _no_foreign_compiler(run: Run) -> Iterator[None]:
    """Note what is compiled by a back end that is not torch's: nobody knows what that makes of what was written."""
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")  # without it, nothing was compiled
    chosen = getattr(dynamo, "_callback_from_stance", None)
    if chosen is None:
        yield
        return

    def choose(callback: Any) -> Any:
        if callable(callback):
            backend = dynamo.innermost_backend(callback)
            backend = getattr(backend, "compiler_fn", backend)
            home = getattr(backend, "__module__", None) or type(backend).__module__
            if home.partition(".")[0] != "torch":
                run.note(COMPILES)
        return chosen(callback)

    with patch.object(dynamo, "_callback_from_stance", choose):
        yield


def _why(error: Exception) -> str:
    """Say why forward() ends without values, where it does not on ordinary numbers."""
    looked = isinstance(error, DataDependentOutputException | DynamicOutputShapeException)
    if looked or "data pointer" in str(error) or "data is not allocated" in str(error):
        return LOOKS
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"calls what torch cannot run without values ({what[:200]})"


def _raised_at(error: Exception) -> str:
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if _is_users(frame)]
    return f"{frames[-1][0].f_code.co_filename}:{frames[-1][1]}" if frames else "forward()"


# A fake tensor's own tolist() asks for one entry after another; that of other tensors is one call.
_one_call = partial(patch.object, FakeTensor, "tolist", Tensor.tolist)


@contextmanager
def made_again(module: torch.nn.Module, earlier: Run) -> Iterator[Run]:
    """Let what runs inside read of constants what the earlier run of the module read; it must make the same calls."""
    run = Run()
    with _one_call(), Calls(_Watch(run, module, None), earlier):
        yield run
    other = earlier.difference(run)
    if other is not None:
        raise OtherPath(other)


class _Watch:
    """What is known of one run: which memory holds what depends on the input."""

    def __init__(self, run: Run, module: torch.nn.Module, fakes: _Fakes | None, failing: int | None = None) -> None:
        self.run, self.fakes, self.failing = run, fakes, failing
        lasting = [t for t in (*module.parameters(), *module.buffers()) if t.layout == torch.strided]
        self._lasting = {_memory(tensor) for tensor in lasting}
        self._own: dict[int, Any] = {}  # storages that this run took and nobody else knows; kept, so that ids last
        self._filled: dict[int, Any] = {}  # those that hold what depends on the input
        self._before: list[tuple[Any, Any]] = []  # storages of parameters and buffers that were written to, and copies

    def depends(self, leaf: object) -> bool:
        """Say whether this is a tensor without values, or one that stands for such."""
        if not isinstance(leaf, Tensor):
            return False
        tensor = _unwrapped(leaf)
        if isinstance(tensor, FakeTensor):
            return True
        return tensor.layout == torch.strided and _memory(tensor) in self._filled

    def known(self, values: Any) -> tuple[Any, ...]:
        """Return what tells each tensor from others: of a parameter its place in memory, of a constant its numbers.

        None stands for one that depends on the input, or is being recorded.
        """
        with DisableTorchFunction(), _python_dispatch._disable_current_modes():
            tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
            return tuple(None if self.depends(tensor) else self._identity(tensor) for tensor in tensors)

    def _identity(self, tensor: Tensor) -> Any:
        tensor = _unwrapped(tensor)
        dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if type(tensor) not in (Tensor, torch.nn.Parameter) or not dense:
            return None
        if _memory(tensor) in self._lasting:
            return (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        some = tensor.detach().reshape(-1)[:MOST_HASHED]
        packed = torch.empty(len(some), dtype=some.dtype).copy_(some)
        return hashlib.blake2b(packed.view(torch.uint8).numpy().data).digest() if len(some) else b""

    def take(self, result: Any, given: Sequence[Tensor]) -> None:
        """Note the memory that an operation took for its result."""
        before = {_memory(tensor) for tensor in given if tensor.layout == torch.strided}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and not isinstance(leaf, FakeTensor) and leaf.layout == torch.strided:
                memory = _memory(leaf)
                if memory not in before:
                    self._own[memory] = leaf.untyped_storage()

    def hand_out(self, leaf: object) -> None:
        """Note that memory is known outside of torch."""
        if isinstance(leaf, Tensor) and not isinstance(leaf, FakeTensor) and leaf.layout == torch.strided:
            self._own.pop(_memory(leaf), None)

    def undo(self) -> None:
        """Give parameters and buffers the numbers that they had."""
        for storage, numbers in reversed(self._before):
            storage.copy_(numbers)

    def write(self, tensor: Tensor, *, hidden: bool) -> None:
        """Note that a tensor is written to; hidden: with what depends on the input."""
        if isinstance(tensor, FakeTensor) or tensor.layout != torch.strided:
            return
        memory = _memory(tensor)
        if memory in self._lasting:
            self.run.note(CHANGES)
            storage = tensor.untyped_storage()
            self._before.append((storage, storage.clone()))
        if hidden:
            if memory not in self._own and memory not in self._filled:
                self.run.note(KEEPS)
            self._filled[memory] = self._own.get(memory, tensor.untyped_storage())


class _Fakes(FakeTensorMode):
    """Tensors without values. It sees what other threads do with them too, which no other mode does."""

    def __init__(self, run: Run) -> None:
        super().__init__(allow_non_fake_inputs=True, static_shapes=True)
        self._run, self._thread = run, threading.get_ident()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if threading.get_ident() != self._thread:
            self._run.note(THREADS)
            if func is torch.ops.aten._local_scalar_dense.default:
                return 0  # an exception would end the thread, and forward() may wait for it
        if _asks_for_values(func, args):
            self._run.note(LOOKS)
            raise LookedAt(f"{func} asks for values of the input")
        return super().__torch_dispatch__(func, types, args, kwargs or {})


class _Operations(TorchDispatchMode):
    """Follows the input through every operation, those that a library makes in C++ too."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.namespace not in _KNOWN:
            self._watch.run.note(f"calls the operator {func}, of which a graph knows no meaning,")
        with DisableTorchFunction():  # what is done here is not what the module calls
            return self._followed(func, args, kwargs or {})

    def _followed(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(isinstance(tensor, FakeTensor) and tensor.fake_mode is not self._watch.fakes for tensor in given):
            self._watch.run.note(REMEMBERS)
            raise LookedAt("an earlier call's tensor has no values")
        hidden = any(self._watch.depends(tensor) for tensor in given)
        for tensor in _written(func, args, kwargs):
            self._watch.write(tensor, hidden=hidden)
        if hidden:
            return self._hidden(func, args, kwargs, given)
        result = func(*args, **kwargs)
        self._watch.take(result, given)
        return result

    def _hidden(self, func: Any, args: Any, kwargs: Any, given: Sequence[Tensor]) -> Any:
        """Run an operation without values; a tensor that stands for one without values is answered as itself."""
        watch = self._watch
        assert watch.fakes is not None
        hidden = [tensor for tensor in given if watch.depends(tensor)]
        if _may_fail(func, hidden) and (watch.run.may_fail < MOST_TRIALS or _is_in_try()):
            watch.run.may_fail += 1
            if watch.run.may_fail - 1 == watch.failing:
                watch.run.failed = True
                raise _Trial("index out of range in self")
        real = [t for t in given if not isinstance(t, FakeTensor) and watch.depends(t)]
        fakes = {id(t): watch.fakes.from_tensor(t) for t in real}
        back = {id(fakes[id(t)]): t for t in real}
        args, kwargs = tree_map(lambda leaf: fakes.get(id(leaf), leaf), (args, kwargs))
        with watch.fakes:
            result = func(*args, **kwargs)
        if any(isinstance(leaf, Tensor) and leaf.layout != torch.strided for leaf in tree_leaves(result)):
            watch.run.note(LOOKS)  # how many numbers such a tensor holds depends on their values
            raise LookedAt(f"{func} has a result that is not dense")
        return tree_map(lambda leaf: back.get(id(leaf), leaf), result)


class Calls(TorchFunctionMode):
    """Records what Python code calls of torch, and sees the calls that read memory directly.

    earlier: a run that is made again; what it was answered, where that is plain data, is the answer once more.
    """

    def __init__(self, watch: _Watch, earlier: Run | None = None) -> None:
        super().__init__()
        self._watch, self._earlier = watch, earlier

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = _name(func)
        place = _place()
        if place is None or _is_about_shape(func, name):
            return func(*args, **kwargs)
        call = Call(name, _outline((args, kwargs)), place, self._watch.known((args, kwargs)))
        before = self._before(call)
        self._watch.run.calls.append(call)
        if name == "__getitem__":
            args = self._without_masks(args, call, before)
        if before is not None and before.answer is not None:
            call.outcome, call.answer = before.outcome, before.answer
            return _copied(before.answer)
        if self._earlier is None and (name in _MEMORY or name in _COPIES):
            self._reads(name, args)
        if name == "data" and self._earlier is not None:  # no other run needs the record of what it is made of
            func = Tensor.detach
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            call.outcome = type(error).__name__
            raise
        call.outcome = "returned"
        if func is torch.tensor:  # which copies
            self._watch.take(result, [])
        if _is_plain(result):
            call.answer = result
        elif name in _SIZED and not any(self._watch.depends(leaf) for leaf in tree_leaves((args, kwargs))):
            with DisableTorchFunction():
                call.answer = _copied(result)
        return result

    def _before(self, call: Call) -> Call | None:
        """Return the same call of the earlier run."""
        if self._earlier is None:
            return None
        place = len(self._watch.run.calls)
        before = self._earlier.calls[place] if place < len(self._earlier.calls) else None
        if before is None or (before.name, before.arguments) != (call.name, call.arguments):
            raise OtherPath(call.place)
        return before

    def _without_masks(self, args: Sequence[Any], call: Call, before: Call | None) -> Sequence[Any]:
        """Write masks in an index as the places where they are true: how many these are is known of constants alone."""
        whole, index = args
        parts = index if isinstance(index, tuple) else (index,)
        parts = tuple(_as_mask(part) for part in parts)
        masks = [part for part in parts if isinstance(part, Tensor) and part.dtype == torch.bool and part.dim() > 0]
        if before is not None:
            call.places = before.places
        elif not any(self._watch.depends(mask) for mask in masks):
            with DisableTorchFunction():
                call.places = [mask.nonzero(as_tuple=True) for mask in masks]
        if not call.places:
            return args
        left = iter(call.places)
        written = [next(left) if any(part is mask for mask in masks) else (part,) for part in parts]
        return whole, tuple(one for several in written for one in several)

    def _reads(self, name: str, args: Sequence[Any]) -> None:
        leaves = tree_leaves(args)
        if any(self._watch.depends(leaf) for leaf in leaves):
            self._watch.run.note(LOOKS)
            raise LookedAt(f"{name} reads values of the input")
        if name in _MEMORY:
            for leaf in leaves:
                self._watch.hand_out(leaf)


# The bytecode of leaving a `with` by an exception that it does not swallow.
_LEAVING = frozenset(
    (
        *("PUSH_EXC_INFO", "WITH_EXCEPT_START", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_TRUE", "TO_BOOL", "NOT_TAKEN"),
        *("RERAISE", "COPY", "POP_EXCEPT", "SWAP", "NOP", "CACHE"),
    )
)


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage inside: a collection calls Python code at a step that nobody chose, and takes its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Path:
    """Records the way through the user's own code, step by step of its bytecode. Inside, garbage is not collected."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 shows steps only where a frame had asked for them before
        sys.settrace(self._enter)

    def __exit__(self, *what: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        caller = frame.f_back
        if not _is_users(frame) or (caller is not None and caller.f_code.co_filename.startswith(_MACHINERY)):
            return None
        if _is_below(frame):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        run, code = self._run, self._run.steps.enter(frame.f_code)
        taken = run.steps.taken

        def within(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                taken.append(code | frame.f_lasti)
                if run.failed and not run.goes_on:
                    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                    run.goes_on = "" if name in _LEAVING else f"{frame.f_code.co_filename}:{frame.f_lineno}"
            return within

        return within


def _as_mask(part: Any) -> Any:
    """Return truth values of Python or numpy in an index as the mask that they are."""
    if isinstance(part, list) and part and all(isinstance(one, bool) for one in part):
        return torch.tensor(part)
    if isinstance(part, np.ndarray) and part.dtype == np.bool_ and part.ndim:
        return torch.from_numpy(part.copy())
    return part


def _name(func: Callable[..., Any]) -> str:
    """Return the name of a torch function; of a property, that of what is read."""
    owner = getattr(func, "__self__", None)
    name = getattr(func, "__name__", type(func).__name__)
    return str(getattr(owner, "__name__", name)) if name in ("__get__", "__set__") else str(name)


def _copied(answer: Any) -> Any:
    return tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else copy.copy(leaf), answer)


def _is_about_shape(func: Callable[..., Any], name: str) -> bool:
    """Say whether a property is read that is no tensor, such as a shape or device: it is the same without values."""
    return getattr(func, "__name__", "") == "__get__" and name not in _TENSORS


def _is_plain(value: object) -> bool:
    """Say whether a call's result is data that Python can decide by, without a tensor in it."""
    if isinstance(value, list | tuple):
        return all(_is_plain(part) for part in value)
    return isinstance(value, bool | int | float | complex | str | np.ndarray | np.generic)


def _outline(value: Any) -> Any:
    """Return what can be compared of a call's arguments: all but the numbers in tensors."""
    if isinstance(value, Tensor):
        return ("tensor", tuple(value.shape), str(value.dtype), str(value.layout))
    if isinstance(value, list | tuple):
        return tuple(_outline(part) for part in value)
    if isinstance(value, Mapping):
        return tuple((str(key), _outline(part)) for key, part in value.items())
    if isinstance(value, slice):
        return ("slice", *(_outline(part) for part in (value.start, value.stop, value.step)))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (value.shape, str(value.dtype), hashlib.blake2b(np.ascontiguousarray(value).data).digest())
    if isinstance(value, bool | int | float | complex | str | np.generic | torch.dtype | torch.device):
        return repr(value)
    return type(value).__name__


def _may_fail(func: Any, hidden: Sequence[Tensor]) -> bool:
    """Say whether an operation may raise an exception for some values of these arguments."""
    if _NEVER_FAILS.fullmatch(func._schema.name):
        return False
    exact = any(not (tensor.is_floating_point() or tensor.is_complex()) for tensor in hidden)
    return exact or _MAY_FAIL.search(func._schema.name) is not None


def _is_in_try() -> bool:
    """Say whether code outside of torch would hear of an exception raised here, and might go on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not watched.__code__:
        name = frame.f_code.co_filename
        if not name.startswith(_INSIDE):
            spans = _guarded(frame.f_code)
            if "asyncio" in name or any(start <= frame.f_lasti < end for start, end in spans):
                return True
        frame = frame.f_back
    return False


@functools.cache
def _guarded(code: CodeType) -> list[tuple[int, int]]:
    """Return the spans of a function's bytecode within `try` or `with`."""
    return [(entry.start, entry.end) for entry in dis.Bytecode(code).exception_entries]  # type: ignore[attr-defined]


def _asks_for_values(func: Any, args: Sequence[Any]) -> bool:
    if torch.Tag.data_dependent_output in func.tags:
        return True
    if torch.Tag.dynamic_output_shape not in func.tags:
        return False
    if func is not torch.ops.aten.index.Tensor:
        return True
    return any(  # an index of integers has a fixed shape
        isinstance(index, FakeTensor) and index.dtype in (torch.bool, torch.uint8) for index in tree_leaves(args[1])
    )


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the arguments that the operation writes to."""
    declared = func._schema.arguments
    given = [*zip(declared, args, strict=False), *((d, kwargs[d.name]) for d in declared if d.name in kwargs)]
    values = [value for d, value in given if d.alias_info is not None and d.alias_info.is_write]
    if "batch_norm" in func._schema.name:  # in training it writes to statistics, which its schema leaves out
        named = {d.name: value for d, value in given}
        if named.get("training") is True:
            values += [named.get("running_mean"), named.get("running_var")]
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _unwrapped(tensor: Tensor) -> Tensor:
    """Return the tensor that torch.func's transformations act on."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


@functools.cache
def is_users_file(name: str) -> bool:
    """Say whether a file is neither torch's nor Python's own."""
    own = name.startswith(_STANDARD) and not name.startswith(_INSTALLED)
    return not own and not name.startswith(_INSIDE) and not name.startswith("<frozen ")


def _is_users(frame: FrameType) -> bool:
    return is_users_file(frame.f_code.co_filename)


def _users_place() -> str:
    """Return FILE:LINE of the innermost frame of the user's own code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return "forward()" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_below(frame: FrameType | None) -> bool:
    """Say whether this frame is run while torch carries out an operation, or while Python imports a module."""
    while frame is not None:
        if frame.f_code.co_name == "__torch_dispatch__" or frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _place() -> str | None:
    """Return FILE:LINE of the innermost frame of the user's own code; None where torch itself carries out an operation.

    Then torch calls torch: an operation without values is made of others, or is being recorded.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__torch_dispatch__" and frame.f_code.co_filename != __file__:
            return None
        if _is_users(frame):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "forward()"
