"""Numbers that lie in files beside the model: in any tensor, in its own folder only, and part of its identity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import Model, small_net

from netproof.core import files
from netproof.errors import ModelError
from netproof.model import load
from netproof.model.describe import describe
from netproof.model.load import load_network
from netproof.model.onnx import external
from netproof.model.onnx.file import read_file
from netproof.model.origin.external import external_files, identity

WEIGHTS = np.arange(4, dtype=np.float32)


def outside(name: str, **entries: object) -> onnx.TensorProto:
    """A tensor of four floats that says that they lie elsewhere."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def constant_net(folder: Path, **entries: object) -> Path:
    """x + k where k is a Constant node."""
    model = Model((1, 4)).add("Constant", value=outside("k", **entries), out="k").add("Add", "x", "k")
    folder.mkdir(parents=True, exist_ok=True)
    return model.save(folder / "net.onnx")


def test_a_constant_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = constant_net(tmp_path / "there", location="w.bin", offset=4, length=16)
    (tmp_path / "there" / "w.bin").write_bytes(b"head" + WEIGHTS.tobytes() + b"tail")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "w.bin").write_bytes(b"\xff" * 24)  # the one in the current folder is not meant
    monkeypatch.chdir(tmp_path / "here")
    network = load_network(path)
    assert np.array_equal(network.replay(np.zeros(4)), WEIGHTS[None])
    assert [Path(file.path) for file in network.external] == [tmp_path / "there" / "w.bin"]
    assert describe(path).sha256 == network.sha256 != network.identity


def test_every_place_of_a_tensor(tmp_path: Path) -> None:
    """Initializers, attributes, lists of them, subgraphs, sparse tensors and functions: nothing external is left."""
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    here = {"location": "w.bin"}
    proto = small_net().proto()
    proto.graph.initializer.append(outside("i", **here))
    sparse = proto.graph.sparse_initializer.add()
    sparse.values.CopyFrom(outside("v", **here))
    sparse.indices.CopyFrom(outside("n", **here))
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["o"], value=outside("deep", **here))],
        "inner",
        [],
        [helper.make_tensor_value_info("o", 1, [4])],
        [outside("inside", **here)],
    )
    node = proto.graph.node.add(op_type="Odd", output=["odd"])
    node.attribute.append(helper.make_attribute("body", inner))
    node.attribute.append(helper.make_attribute("several", [outside("a", **here), outside("b", **here)]))
    function = proto.functions.add(name="f")
    function.node.append(helper.make_node("Constant", [], ["c"], value=outside("called", **here)))
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    file = read_file(path)
    assert len(file.external) == 1
    assert b"w.bin" not in file.data
    assert file.data.count(WEIGHTS.tobytes()) == 8


def test_identity_is_of_all_files(tmp_path: Path) -> None:
    path = constant_net(tmp_path, location="w.bin")
    found = []
    for weights in (WEIGHTS, WEIGHTS + 1, WEIGHTS):
        (tmp_path / "w.bin").write_bytes(weights.tobytes())
        network = load_network(path)
        assert external_files(path) == network.external
        assert identity(network.sha256, network.external) == network.identity
        found.append((network.sha256, network.identity))
    assert found[0] == found[2]
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]
    plain = load_network(small_net().save(tmp_path / "plain.onnx"))
    assert (plain.external, plain.identity) == ((), plain.sha256)
    assert external_files(tmp_path / "plain.onnx") == ()


def refused(path: Path, match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        load_network(path)
    line = str(caught.value)
    assert "\n" not in line
    assert path.name in line
    assert "tensor 'k'" in line


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({}, "it names no file"),
        ({"location": ""}, "it names no file"),
        ({"location": "none.bin"}, "there is no file 'none.bin'"),
        ({"location": "folder"}, "there is no file 'folder'"),
        ({"location": "../w.bin"}, "outside the model's folder"),
        ({"location": "folder/../../w.bin"}, "outside the model's folder"),
        ({"location": "folder/../../net/w.bin"}, "outside the model's folder"),
        ({"location": "link.bin"}, "outside the model's folder"),
        ({"location": "a\0b"}, "null"),
        ({"location": "x" * 300}, "too long"),
        ({"location": "w.bin", "offset": "-4"}, "its offset '-4' is not a number"),
        ({"location": "w.bin", "offset": "١"}, "is not a number"),
        ({"location": "w.bin", "length": "1e3"}, "its length '1e3' is not a number"),
        ({"location": "w.bin", "length": "1" + "0" * 30}, "is not a number"),
        ({"location": "w.bin", "offset": 8}, None),
        ({"location": "w.bin", "offset": 4, "length": 16}, "it ends at byte 20 of 'w.bin', which has 16"),
        ({"location": "w.bin", "offset": 400}, "it ends at byte 400"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, entries: dict[str, object], said: str | None) -> None:
    folder = tmp_path / "net"
    path = constant_net(folder, **entries)
    (folder / "folder").mkdir()
    for place in (folder, tmp_path):
        (place / "w.bin").write_bytes(WEIGHTS.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    if said is None:
        with pytest.raises(ModelError, match="its data do not fit its shape"):
            load_network(path)
    else:
        refused(path, said)


def test_an_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    refused(constant_net(tmp_path, location=tmp_path / "w.bin"), "outside the model's folder")


def test_a_link_within_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(WEIGHTS.tobytes())
    (tmp_path / "w.bin").symlink_to(tmp_path / "data.bin")
    assert load_network(constant_net(tmp_path, location="w.bin")).external


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = constant_net(tmp_path, location="w.bin")
    path.write_bytes(path.read_bytes().replace(b"w.bin", b"w\xff\xfein"))
    refused(path, "it names no file")


def test_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file that is too large; and a small one that many tensors take all of."""
    path = constant_net(tmp_path, location="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(1 << 12))
    monkeypatch.setattr(files, "LARGEST_FILE", 1 << 11)
    refused(path, "it has more than")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    monkeypatch.setattr(external, "LARGEST_FILE", 40)
    proto = small_net().proto()
    proto.graph.initializer.extend(outside("k", location="w.bin") for _ in range(3))
    path.write_bytes(proto.SerializeToString())
    refused(path, "its tensors come to more than")


def test_weights_beside_the_model_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_net().proto(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    network = load_network(path)
    assert network.notes == ("weights lie beside the model, in w.bin",)
    inside = load_network(small_net().save(tmp_path / "inside.onnx"))
    assert np.array_equal(network.replay(np.ones(4)), inside.replay(np.ones(4)))
    assert numpy_helper.to_array(read_file(path).model.graph.initializer[0]).any()


def test_a_network_is_read_again_only_when_its_bytes_have_changed(tmp_path: Path) -> None:
    """Those of the model, and those beside it."""
    path, weights = tmp_path / "net.onnx", tmp_path / "w.bin"
    onnx.save(small_net().proto(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    network = load_network(path)
    assert load_network(path) is network
    weights.write_bytes(weights.read_bytes()[:-4] + np.float32(7).tobytes())
    changed = load_network(path)
    assert not np.array_equal(changed.replay(np.ones(4)), network.replay(np.ones(4)))
    onnx.save(small_net().proto(), path)
    assert load_network(path).external == ()
    (tmp_path / "copy.onnx").write_bytes(path.read_bytes())
    assert load_network(tmp_path / "copy.onnx").path.endswith("copy.onnx")


def test_large_networks_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "RECENT", 1000)
    path = small_net().save(tmp_path / "net.onnx")
    assert (path.stat().st_size < 1000, load_network(path) is load_network(path)) == (True, True)
    monkeypatch.setattr(load, "RECENT", 10)
    assert load_network(path) is not load_network(path)
