"""Results on disk."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from netproof.campaign.instances import read_folder
from netproof.campaign.jobs import Job
from netproof.campaign.store import APPLICATION, SCHEMA, Store
from netproof.errors import UsageError
from support.campaign import a_result, make_set, old_store


def test_what_is_added_is_there_for_others(tmp_path: Path) -> None:
    """Also while the writer is still open: that is what write-ahead logging gives."""
    result = dataclasses.replace(
        a_result(), seconds={"load": 0.5}, lower_bound=0.25, witness="((X_0 0.5))\n", truth="unsat"
    )
    with Store(tmp_path / "new" / "results.sqlite") as store:
        store.add(result)
        store.add(a_result("q.vnnlib", timeout=None))
        with Store(store.path, create=False) as reader:
            assert reader.results() == store.results() == [result, a_result("q.vnnlib", timeout=None)]
        mode = sqlite3.connect(store.path).execute("PRAGMA journal_mode").fetchone()
    assert mode == ("wal",)


def test_the_latest_answer_counts_and_an_error_is_none(tmp_path: Path) -> None:
    job = Job(read_folder(make_set(tmp_path, "unsat"))[0], "auto")
    with Store(tmp_path / "results.sqlite") as store:
        assert store.done(job) is None
        for verdict, total in (("error", 1.0), ("unsat", 2.0), ("timeout", 3.0), ("error", 4.0)):
            store.add(dataclasses.replace(a_result(verdict=verdict, total=total), key=job.key))
        done = store.done(job)
        assert done is not None
        assert (done.verdict, done.total) == ("timeout", 3.0)
        assert len(store.results()) == 4


def test_an_operator_that_is_not_supported_stays_so(tmp_path: Path) -> None:
    job = Job(read_folder(make_set(tmp_path, "unsat"))[0], "auto")
    refused = dataclasses.replace(a_result(verdict="error"), key=job.key, refused="Sigmoid")
    with Store(tmp_path / "results.sqlite") as store:
        store.add(dataclasses.replace(refused, refused=None, reason="unsupported operator Sigmoid"))
        assert store.done(job) is None
        store.add(refused)
        assert store.done(job) == refused


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look at\n" * 20)
    with pytest.raises(UsageError, match="cannot be read or kept"):
        Store(tmp_path / "text")
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(UsageError, match="not results of netproof"):
        Store(tmp_path / "other")
    with pytest.raises(UsageError, match="no results there"):
        Store(tmp_path / "missing", create=False)


def test_another_form_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "results.sqlite").close()
    connection = sqlite3.connect(tmp_path / "results.sqlite")
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    with pytest.raises(UsageError, match=f"results in form {SCHEMA + 1}, not {SCHEMA}"):
        Store(tmp_path / "results.sqlite")


FORM_1 = {
    "TEXT NOT NULL": "key benchmark folder onnx onnx_sha256 vnnlib vnnlib_sha256 method options device verdict reason"
    " decided_by seconds witness versions started finished error log",
    "TEXT": "truth",
    "REAL NOT NULL": "total",
    "REAL": "timeout lower_bound upper_bound",
    "INTEGER NOT NULL": "seed attack domains leaf_lps rounds peak_memory",
    "INTEGER": "id threads",
}


FORM_7 = {
    **FORM_1,
    "INTEGER": "id threads split cut_in_lp peak_host_memory read_as was",
    "TEXT": "truth memory machine command input_shape refused original about certificate",
    "REAL": "timeout lower_bound upper_bound changed",
}


def columns_of(path: Path) -> dict[str, str]:
    columns = sqlite3.connect(path).execute("PRAGMA table_info(runs)").fetchall()
    return {name: kind + " NOT NULL" * needed for _, name, kind, needed, _, _ in columns}


def by_name(form: dict[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in form.items() for name in names.split()}


def test_the_columns_of_this_form(tmp_path: Path) -> None:
    """Another column is another form: stores that people have must stay readable."""
    assert SCHEMA == 7
    Store(tmp_path / "results.sqlite").close()
    assert columns_of(tmp_path / "results.sqlite") == by_name(FORM_7)


# --- what version 0.1.0 left ---


def test_a_store_of_form_1_is_opened_and_keeps_its_rows(tmp_path: Path) -> None:
    path = old_store(tmp_path / "results.sqlite", a_result("p.vnnlib"), a_result("q.vnnlib", "timeout"))
    assert columns_of(path) == by_name(FORM_1)
    with Store(path) as store:
        assert [(r.vnnlib, r.version, r.split, r.cut_in_lp) for r in store.results()] == [
            ("p.vnnlib", "0.1.0", None, None),
            ("q.vnnlib", "0.1.0", None, None),
        ]
        new = dataclasses.replace(a_result("r.vnnlib"), split=3, cut_in_lp=True)
        store.add(new)
        assert store.results()[-1] == new
    assert columns_of(path) == by_name(FORM_7)
    with Store(path, create=False) as again:
        assert len(again.results()) == 3
        with Store(path, create=False) as beside:
            assert beside.results() == again.results()


def test_two_that_open_an_old_store_at_once_bring_it_up_once(tmp_path: Path) -> None:
    """The second has seen form 1 and waits for the first: there is nothing left to do for it."""
    path = old_store(tmp_path / "results.sqlite", a_result())
    first = Store(path)
    first._bring_up()
    assert columns_of(path) == by_name(FORM_7)
    assert len(first.results()) == 1
    first.close()


def test_a_store_that_cannot_be_brought_up_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_store(tmp_path / "results.sqlite", a_result())
    monkeypatch.setattr("netproof.campaign.store.ADDED", {2: ("split", "domains")})  # one that is there already
    with pytest.raises(UsageError, match="cannot be read or kept"):
        Store(path)
    assert columns_of(path) == by_name(FORM_1)
    monkeypatch.undo()
    with Store(path) as store:
        assert len(store.results()) == 1


def test_an_answer_of_another_version_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = read_folder(make_set(tmp_path / "set", "unsat"))[0]
    with monkeypatch.context() as earlier:
        earlier.setattr("netproof.campaign.jobs.build", lambda: "0.1.0")
        key = Job(instance, "auto").key
    path = old_store(tmp_path / "results.sqlite", dataclasses.replace(a_result(), key=key))
    with Store(path) as store:
        assert store.done(Job(instance, "auto")) is None
        monkeypatch.setattr("netproof.campaign.jobs.build", lambda: "0.1.0")
        assert store.done(Job(instance, "auto")) is not None
