"""Folders of instances: what is read, what is known, and what is said of a file that is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from netproof.campaign.instances import find_folders, read_folder, read_folders
from netproof.errors import UsageError


def write(folder: Path, instances: str, known: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instances.csv").write_text(instances)
    if known is not None:
        (folder / "known.csv").write_text(known)
    return folder


def test_lines_without_header(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", "onnx/a.onnx,./vnnlib/p.vnnlib,60\n\n onnx/b.onnx , vnnlib/q.vnnlib,2.5\n")
    first, second = read_folder(folder)
    assert (first.benchmark, first.timeout, first.truth) == ("set", 60.0, None)
    assert (first.onnx, first.vnnlib) == (folder / "onnx/a.onnx", folder / "vnnlib/p.vnnlib")
    assert first.names == ("onnx/a.onnx", "vnnlib/p.vnnlib")
    assert str(second) == "set: onnx/b.onnx vnnlib/q.vnnlib"
    assert second.timeout == 2.5


def test_header_names_the_columns(tmp_path: Path) -> None:
    (one,) = read_folder(write(tmp_path, "name,vnnlib,onnx,expected\nx,p.vnnlib,a.onnx,sat\n"))
    assert one.names == ("a.onnx", "p.vnnlib")
    assert (one.timeout, one.truth, one.told_by) == (None, "sat", "instances.csv")


def test_packed_csv(tmp_path: Path) -> None:
    for name, text in (("instances", "a.onnx,p.vnnlib,1\n"), ("known", "onnx,vnnlib,truth\na.onnx,p.vnnlib,unsat\n")):
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    (one,) = read_folder(tmp_path)
    assert (one.names, one.truth) == (("a.onnx", "p.vnnlib"), "unsat")


@pytest.mark.parametrize(
    ("onnx", "vnnlib", "known", "truth"),
    [
        ("a.onnx", "p.vnnlib", "./a.onnx,p.vnnlib.gz,sat\n", "sat"),
        ("a.onnx", "p.vnnlib", "a.onnx,p.vnnlib,-\n", None),
        ("a.onnx", "p.vnnlib", "a.onnx,other.vnnlib,sat\n", None),
        ("a.onnx", "p.vnnlib", "a.onnx,p.vnnlib,sat\na.onnx,p.vnnlib,unsat\n", None),
        ("unsat_v3.onnx", "unsat_v3.vnnlib", None, "unsat"),
        ("sat_v3.onnx", "sat_v3.vnnlib", "sat_v3.onnx,sat_v3.vnnlib,unsat\n", None),
        ("saturn.onnx", "p.vnnlib", None, None),
    ],
)
def test_what_is_known(tmp_path: Path, onnx: str, vnnlib: str, known: str | None, truth: str | None) -> None:
    folder = write(tmp_path, f"{onnx},{vnnlib},1\n", known and f"onnx,vnnlib,truth\n{known}")
    (one,) = read_folder(folder)
    assert one.truth == truth
    contradictory = truth is None and known is not None and "unsat" in known
    assert one.told_by.startswith("contradictory") == contradictory


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no instances"),
        ("onnx,vnnlib,timeout\n", "no instances"),
        ("a.onnx,p.vnnlib\n", "line 1: 2 columns, not 3"),
        ("a.onnx,p.vnnlib,1\na.onnx,p.vnnlib,soon\n", "line 2: 'soon' is not a time limit"),
        ("a.onnx,p.vnnlib,-1\n", "'-1' is not a time limit"),
        ("a.onnx,p.vnnlib,nan\n", "'nan' is not a time limit"),
        ("a.onnx,p.vnnlib,1e999\n", "'1e999' is not a time limit"),
        ("a.onnx,p.vnnlib,1_000\n", "'1_000' is not a time limit"),
        ("a.onnx,p.vnnlib,\u0661\n", "is not a time limit"),
        ("a.onnx,p\u2028q.vnnlib,soon\n", "line 1: 'soon' is not a time limit"),
        (",p.vnnlib,1\n", "no model"),
        ("a.onnx,,1\n", "no property"),
        ("\"[('f', 'a.onnx'), 'b.onnx']\",p.vnnlib,1\n", "are not pairs of a name and a path"),
        ("\"[('f', 'a.onnx'), ('f', 'b.onnx')]\",p.vnnlib,1\n", "are not pairs of a name and a path"),
        ('"[]",p.vnnlib,1\n', "are not pairs of a name and a path"),
        ('"a.onnx,p.vnnlib,1\n', "not a CSV file"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r"instances\.csv") as error:
        read_folder(write(tmp_path, text))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_known_without_its_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"known\.csv: no columns onnx, vnnlib and truth"):
        read_folder(write(tmp_path, "a.onnx,p.vnnlib,1\n", "model,answer\na,b\n"))


def test_folders_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = (write(tmp_path / "home" / name, "a.onnx,p.vnnlib,1\n") for name in ("one", "two"))
    (tmp_path / "home" / "not-a-set").mkdir()
    assert find_folders(["home"]) == [one, two]
    assert find_folders(["home/two", "home"]) == [two, one]
    with pytest.raises(UsageError, match="one: no such folder"):
        find_folders(["one"])
    monkeypatch.setenv("NETPROOF_BENCHMARKS", str(tmp_path / "home"))
    assert find_folders(["one"]) == [one]
    with pytest.raises(UsageError, match=r"not-a-set: no instances\.csv in this folder, nor in NETPROOF_BENCHMARKS"):
        find_folders(["home/not-a-set"])


def test_sets_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("2021/acasxu", "2022/acasxu", "mnist/2.0"):
        write(tmp_path / name, "a.onnx,p.vnnlib,1\na.onnx,q.vnnlib,1\n")
    found = read_folders([tmp_path / "2021", tmp_path / "2022", tmp_path / "mnist"], first=1)
    assert [instance.benchmark for instance in found] == ["2021-acasxu", "2022-acasxu", "mnist-2.0"]


def test_several_networks_of_one_instance(tmp_path: Path) -> None:
    line = "\"[('f', 'onnx/a.onnx'), ('g', 'onnx/b.onnx')]\",p.vnnlib,5\n"
    (tmp_path / "instances.csv").write_text(line)
    (instance,) = read_folder(tmp_path)
    assert instance.networks == (("f", tmp_path / "onnx/a.onnx"), ("g", tmp_path / "onnx/b.onnx"))
    assert instance.onnx == tmp_path / "onnx/a.onnx"
    assert instance.names == ("f=onnx/a.onnx g=onnx/b.onnx", "p.vnnlib")
