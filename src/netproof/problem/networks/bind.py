"""The networks of a query, from the models that were given for their names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from netproof.errors import SpecError, UsageError
from netproof.model.combined import AnyNetwork, Member, Merged
from netproof.model.load import from_file, read_network
from netproof.model.network import Network
from netproof.model.onnx.file import read_file
from netproof.problem.networks.interface import Declared, Interface, Tensor


def bind(interface: Interface, models: Any, source: str = "") -> AnyNetwork:
    """Read the networks that a query declares; `models` is one model, or a model for each name.

    A network that is `equal-to` another has that one's model. SpecError where a network is not what is declared.
    """
    given = _by_name(interface, models, source)
    members = []
    for declared, reads in interface.reads():
        network, used = _read(declared, given[declared.equal_to or declared.name], source)
        members.append(Member(declared.name, network, _entries(declared, used, reads)))
    if interface.plain and len(members[0].reads) == len(interface.place):
        return members[0].network
    _check_isomorphic(interface, members, source)
    return Merged(tuple(members), len(set(interface.place)))


def _by_name(interface: Interface, models: Any, source: str) -> Mapping[str, Any]:
    needed = [network.name for network in interface.networks if not network.equal_to]
    if not isinstance(models, Mapping):
        if len(needed) == 1:
            return {needed[0]: models}
        raise UsageError(
            f"the query declares {len(needed)} networks with a model each: {', '.join(needed)}",
            file=source or None,
            remedy="give each by its name: {name: model} in Python; `netproof verify` takes --network NAME=PATH",
        )
    for name in models:
        if name not in needed:
            same = next((n.equal_to for n in interface.networks if n.name == name), "")
            why = f"it is equal-to {same}" if same else f"the query declares {', '.join(needed)}"
            raise UsageError(
                f"no model is needed for network {name}: {why}", file=source or None, remedy="leave it out"
            )
    missing = [name for name in needed if name not in models]
    if missing:
        raise UsageError(
            f"no model was given for network {missing[0]}",
            file=source or None,
            remedy=f"add --network {missing[0]}=PATH",
        )
    return models


def _entries(declared: Declared, used: Sequence[Tensor], reads: Sequence[int]) -> tuple[int, ...]:
    """Return what a network reads of x: the entries of those of its declared inputs that its model uses."""
    found: list[int] = []
    start = 0
    for tensor in declared.of("input"):
        if tensor in used:
            found += reads[start : start + tensor.size]
        start += tensor.size
    return tuple(found)


def _read(declared: Declared, model: Any, source: str) -> tuple[Network, tuple[Tensor, ...]]:
    """Read the model of a declaration, with its hidden tensors after its outputs, and compare it with what it says.

    Return also the declared inputs that the network has: a model's inputs that play no part may be left out of it.
    """
    network = read_network(model)
    hidden = declared.of("hidden")
    inputs, shown = _used(declared, network), declared.of("output")
    for what, mine, theirs in (("inputs", inputs, network.inputs), ("outputs", shown, network.outputs)):
        if len(mine) != len(theirs):
            raise SpecError(
                f"network {declared.name} has {len(mine)} {what}, the model {network.path} has {len(theirs)}",
                file=source or None,
                line=declared.line,
                remedy="declare all of the model's, in its order",
            )
    if hidden:
        names = [info.name for info in network.outputs] + [_tensor_name(network, tensor, source) for tensor in hidden]
        network = _answering(_source(model), names, declared, source)
    infos = (*network.inputs, *network.outputs)
    for tensor, info in zip((*inputs, *declared.given), infos, strict=True):
        _compare(tensor, info, network, source)
    return network, inputs


def _answering(model: Any, names: Sequence[str], declared: Declared, source: str) -> Network:
    """Read a model that answers with these tensors of its file; one that is named again is copied, exactly."""
    again = [k for k, name in enumerate(names) if name in names[:k]]
    if not again:
        return read_network(model, outputs=names)
    if not isinstance(model, str | os.PathLike):
        second = declared.given[again[0]]
        raise SpecError(
            f"{second.kind} {second.name} is a second name of the tensor {names[again[0]]!r}",
            file=source or None,
            line=second.line,
            remedy="declare the tensor once, or give the model as a file",
        )
    file = read_file(os.fspath(model))
    graph = file.model.graph
    taken = {name for node in graph.node for name in node.output}
    outputs = list(names)
    for k in again:
        while outputs[k] in taken:
            outputs[k] += "'"
        taken.add(outputs[k])
        graph.node.append(onnx.helper.make_node("Identity", [names[k]], [outputs[k]]))
    return from_file(file, outputs)


def _used(declared: Declared, network: Network) -> tuple[Tensor, ...]:
    """Return the declared inputs that are the network's, by their places among all inputs of its file."""
    inputs = declared.of("input")
    if len(inputs) == len(network.inputs) or not os.path.isfile(network.path):
        return inputs
    graph = read_file(network.path).model.graph
    constants = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in constants]
    kept = {info.name for info in network.inputs}
    if len(names) != len(inputs):
        return inputs
    return tuple(tensor for tensor, name in zip(inputs, names, strict=True) if name in kept)


def _source(model: Any) -> Any:
    """Return what a model can be read from again, with other outputs: of a network that is loaded, its file."""
    return model.path if isinstance(model, Network) and os.path.isfile(model.path) else model


def _compare(tensor: Tensor, info: Any, network: Network, source: str) -> None:
    """Refuse a tensor whose shape or type is not the file's. Axes of size 1 do not count, and real is any type."""
    mine, theirs = ([size for size in shape if size != 1] for shape in (tensor.shape, info.shape))
    if mine != theirs:
        what = f"has shape {list(tensor.shape)}, in the model {network.path} it has {list(info.shape)}"
    elif tensor.dtype not in ("real", info.dtype):
        what = f"has type {tensor.dtype}, in the model {network.path} it has {info.dtype}"
    else:
        return
    raise SpecError(
        f"{tensor.kind} {tensor.name} {what}",
        file=source or None,
        line=tensor.line,
        remedy="declare it as the model has it" + ("" if mine != theirs else ", or as real"),
    )


def _tensor_name(network: Network, tensor: Tensor, source: str) -> str:
    """Return the name of a hidden tensor, which a node of that name may also give."""
    graph = onnx.ModelProto.FromString(network.model).graph
    if any(tensor.node in node.output for node in graph.node):
        return tensor.node
    nodes = [node for node in graph.node if node.name == tensor.node]
    if len(nodes) > 1:
        raise SpecError(
            f"hidden {tensor.name}: the model {network.path} has {len(nodes)} nodes of the name {tensor.node!r}",
            file=source or None,
            line=tensor.line,
            remedy="name a tensor as `netproof inspect` lists them",
        )
    if not nodes or len(nodes[0].output) != 1:
        raise SpecError(
            f"hidden {tensor.name}: the model {network.path} has no tensor {tensor.node!r}",
            file=source or None,
            line=tensor.line,
            remedy="name a tensor as `netproof inspect` lists them",
        )
    return str(nodes[0].output[0])


def _check_isomorphic(interface: Interface, members: Sequence[Member], source: str) -> None:
    """Refuse a network that is declared isomorphic to another and is made of other operators."""
    network = {member.name: member.network for member in members}
    for declared in interface.networks:
        other = declared.isomorphic_to
        if other and _operators(network[declared.name]) != _operators(network[other]):
            raise SpecError(
                f"network {declared.name} is declared isomorphic-to {other}, but their models have other operators",
                file=source or None,
                line=declared.line,
                remedy="leave isomorphic-to out",
            )


def _operators(network: Network) -> Counter[str]:
    """Count the operators of a model, without those that compute nothing."""
    types = (node.op_type for node in onnx.ModelProto.FromString(network.model).graph.node)
    return Counter(kind for kind in types if kind not in ("Constant", "Identity", "Dropout"))
