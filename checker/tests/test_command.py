"""The command: its first line, its exit codes, and files that are not there or not what they should be."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

import npcheck.__main__ as command
from certificates import Case, chunks, dense, header, leaf, spec

MODEL = dense(([[1.0, 1.0]], [0.5]))
SPEC = spec([0, 0], [1, 1], 1, "(<= Y_0 0.25)")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path, MODEL, SPEC)
    case.certificate.write_bytes(header(MODEL, SPEC.encode()) + chunks(leaf()))
    return case


def run(*arguments: object) -> int:
    return command.main([str(argument) for argument in arguments])


def test_valid(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(case.certificate, case.model, case.spec) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "valid"
    assert "1 disjunct, 1 leaf" in lines[1]


def test_invalid(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.spec.write_text(SPEC + "\n")
    assert run(case.certificate, case.model, case.spec) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "invalid"
    assert lines[1].startswith("the certificate is of another spec than ")
    assert len(lines) == 2


@pytest.mark.parametrize("which", ["certificate", "model", "spec"])
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "noise"])
def test_files_that_are_not_there_or_wrong(
    case: Case, which: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said on stdout: nothing was checked."""
    path: Path = getattr(case, which)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else os.urandom(1000))
    assert run(case.certificate, case.model, case.spec) == 2
    streams = capsys.readouterr()
    assert not streams.out
    assert streams.err.startswith("npcheck: ")
    assert streams.err.count("\n") == 1


def test_a_reader_that_stops(case: Case) -> None:
    """The first line is enough for `head -1`: nothing is said of a fault."""
    command = f"{sys.executable} -m npcheck {case.certificate} {case.model} {case.spec} | true"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert not ended.stderr


def test_files_may_be_packed(case: Case, tmp_path: Path) -> None:
    for path in (case.model, case.spec):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert run(case.certificate, f"{case.model}.gz", f"{case.spec}.gz") == 0
    whole = Path(f"{case.model}.gz").read_bytes()
    for damaged in (whole[:-9], whole[:20], b"\x1f\x8b", whole[:30] + b"x" + whole[31:]):
        Path(f"{case.model}.gz").write_bytes(damaged)
        assert run(case.certificate, f"{case.model}.gz", case.spec) in (1, 2)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_what_stops_it(case: Case, fault: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise fault

    monkeypatch.setattr(command, "check", stop)
    assert run(case.certificate, case.model, case.spec) == (130 if fault is KeyboardInterrupt else 2)


def test_nobody_reads_the_answer(case: Case) -> None:
    """The exit code is that of the answer, without a traceback."""
    source = str(Path(command.__file__).parents[1])
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "npcheck", case.certificate, case.model, case.spec]
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("only one")
    assert stopped.value.code == 2
    assert not capsys.readouterr().out


def test_it_runs_as_a_module_without_more_than_numpy(case: Case) -> None:
    """No package beside numpy and the standard library is imported."""
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import npcheck.__main__ as m; answer = m.main();"
        "print(sorted(set(sys.modules) & {'torch', 'onnx', 'netproof', 'scipy', 'google'})); sys.exit(answer)"
    )
    source = str(Path(command.__file__).parents[1])
    arguments = [sys.executable, "-c", code, source, case.certificate, case.model, case.spec]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "valid"
    assert done.stdout.splitlines()[-1] == "[]"
