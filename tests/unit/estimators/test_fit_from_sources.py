"""A fit from files and other sources is the fit from memory, and leaves nothing."""

import io
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyarrow import csv as pa_csv
from pyarrow import parquet

from corrdp.estimators import (
    AdditiveClassifier,
    AllSensitive,
    LinearRegression,
    LogisticRegression,
)
from corrdp.estimators import _rows as tiled
from corrdp.exceptions import BudgetError, CorrDPError, PolicyError
from corrdp.leakage import estimate_leakage
from corrdp.ledger import Ledger
from corrdp.policy import Budget, NumberDomain
from corrdp.queries import answer_queries
from corrdp.training.rows import _segments
from linear_model_examples import (
    example_frame,
    example_policy,
    model_of,
    regression_frame,
    regression_policy,
)

FRAME = example_frame(2500)


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setattr(_segments, "_LEAST_ROWS", 512)
    monkeypatch.setattr(_segments, "_MOST_ROWS", 512)
    monkeypatch.setattr(tiled, "BATCH_ROWS", 300)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def _bits(model):
    return np.append(model.coef_, model.intercept_).tobytes()


def _fitted(source, **options):
    return model_of(n_steps=8, **options).fit(source)


@cache
def _expected():
    return _bits(_fitted(FRAME))


def _left(tmp_path):
    return list((tmp_path / "tmp").iterdir())


@pytest.fixture
def directory(tmp_path):
    for name, part in FRAME.groupby("city"):
        place = tmp_path / "table" / f"city={name}"
        place.mkdir(parents=True)
        part.drop(columns="city").to_parquet(place / "part.parquet")
    return tmp_path / "table"


def test_every_source_gives_the_model_of_the_table(tmp_path):
    table = pa.Table.from_pandas(FRAME)
    parquet.write_table(table, tmp_path / "rows.parquet")
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    polars = pytest.importorskip("polars")
    sources = {
        "file": tmp_path / "rows.parquet",
        "text": str(tmp_path / "rows.csv"),
        "dataset": ds.dataset(tmp_path / "rows.parquet"),
        "lazy": polars.scan_parquet(tmp_path / "rows.parquet"),
        "table": table,
        "frame": polars.from_arrow(table),
    }
    if duckdb := pytest.importorskip("duckdb"):
        sources["relation"] = duckdb.connect().from_arrow(table)
    found = {name: _bits(_fitted(source)) for name, source in sources.items()}
    assert found == dict.fromkeys(sources, _expected())
    assert _left(tmp_path) == []


def test_a_reader_is_read_once_and_keeps_declared_bounds(tmp_path):
    table = pa.Table.from_pandas(FRAME)
    declared = _bits(_fitted(FRAME, bounds="declared"))
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    streams = {
        "reader": table.to_reader(max_chunksize=77),
        "text": pa_csv.open_csv(tmp_path / "rows.csv"),
        "bytes": pa.ipc.open_stream(stream.getvalue()),
        "relation": duckdb.connect().from_arrow(table.to_reader()),
    }
    paid = []
    for source in streams.values():
        assert _bits(model_of(n_steps=8).fit(source, charge=paid.append)) == declared
    assert len(paid) == len(streams)
    gone = duckdb.connect().from_arrow(table.to_reader())
    with pytest.raises(CorrDPError, match="has none left"):
        model_of(n_steps=8, bounds="released").fit(gone, charge=paid.append)
    assert len(paid) == len(streams)
    assert declared != _expected()  # some budget tells where numbers lie
    with pytest.raises(CorrDPError, match="can be read once"):
        _fitted(table.to_reader(), bounds="released")
    assert _left(tmp_path) == []


def test_a_partitioned_directory_is_the_table_in_its_order(directory, tmp_path):
    ordered = FRAME.sort_values("city", kind="stable")
    model = _fitted(directory)
    assert _bits(model) == _bits(_fitted(ordered))
    assert model.feature_names_in_.tolist() == ["age", "sex", "city"]
    assert model.plan_.n_rows == len(FRAME)
    assert _left(tmp_path) == []


def test_workers_give_the_same_model_and_leave_nothing(directory, tmp_path):
    alone = _fitted(directory)
    assert _bits(_fitted(directory, n_jobs=2)) == _bits(alone)
    assert _left(tmp_path) == []


@pytest.mark.parametrize(
    "loss", [{}, {"loss": "huber", "huber_threshold": 0.2}], ids=["squared", "huber"]
)
def test_numbers_are_learned_from_files(loss, tmp_path):
    frame = regression_frame()
    frame.to_parquet(tmp_path / "rows.parquet")
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "n_steps": 8}
    models = [
        LinearRegression(regression_policy(), **loss, **options).fit(source)
        for source in (frame, tmp_path / "rows.parquet")
    ]
    assert _bits(models[0]) == _bits(models[1])


@pytest.mark.parametrize(
    "options",
    [{"solver": "svrg"}, {"sampling_rate": 0.1}, {"calibration": "theorem"}],
)
def test_other_ways_of_training_read_files_too(options, tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    models = [
        model_of(n_steps=12, research=True, **options).fit(source)
        for source in (FRAME, tmp_path / "rows.parquet")
    ]
    assert _bits(models[0]) == _bits(models[1])
    assert models[0].n_clipped_rows_ == models[1].n_clipped_rows_


def test_additive_models_read_files_too(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "n_steps": 8}
    models = [
        AdditiveClassifier(example_policy(), n_knots=3, **options).fit(source)
        for source in (FRAME, tmp_path / "rows.parquet")
    ]
    assert _bits(models[0]) == _bits(models[1])


def test_research_counts_clipped_rows_batch_by_batch(tmp_path):
    frame = FRAME.assign(age=np.where(np.arange(len(FRAME)) % 5 == 0, 200.0, FRAME.age))
    frame.to_parquet(tmp_path / "rows.parquet")
    for source in (frame, tmp_path / "rows.parquet"):
        assert _fitted(source, research=True).n_clipped_rows_ == 500


class TestCache:
    @pytest.fixture
    def path(self, tmp_path):
        FRAME.to_parquet(tmp_path / "rows.parquet")
        return tmp_path / "rows.parquet"

    @pytest.fixture
    def made(self, monkeypatch):
        """How often tiles were made."""
        count = []

        def write(*arguments, **options):
            count.append(1)
            return write_tiles(*arguments, **options)

        write_tiles = tiled.write_tiles
        monkeypatch.setattr(tiled, "write_tiles", write)
        return count

    def test_kept_tiles_are_found_again(self, path, tmp_path, made):
        kept = tmp_path / "cache"
        for _ in range(2):
            assert _bits(_fitted(path, cache_dir=kept)) == _expected()
        assert len(made) == 1
        assert sorted(p.suffix for p in kept.iterdir()) == ["", ".tiles"]

    def test_other_rows_and_other_policies_have_other_tiles(self, tmp_path, made):
        kept, path = tmp_path / "cache", tmp_path / "rows.csv"
        FRAME.to_csv(path, index=False)
        _fitted(path, cache_dir=kept)
        before = path.stat()
        other = FRAME.iloc[::-1]
        other.to_csv(path, index=False)
        assert path.stat().st_size == before.st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert _bits(_fitted(path, cache_dir=kept)) == _bits(_fitted(other))
        assert len(made) == 2
        model_of(example_policy(label_score=0.1), n_steps=8, cache_dir=kept).fit(path)
        assert len(made) == 3

    @pytest.mark.parametrize("damage", ["cut", "changed", "foreign"])
    def test_damaged_tiles_are_made_anew(self, damage, path, tmp_path, made):
        kept = tmp_path / "cache"
        _fitted(path, cache_dir=kept)
        (tiles,) = kept.glob("*.tiles")
        content = tiles.read_bytes()
        tiles.write_bytes(
            {
                "cut": content[: len(content) // 2],
                "changed": content[:100] + b"\x01" + content[101:],
                "foreign": b"PAR1" + content[4:],
            }[damage]
        )
        assert tiles.read_bytes() != content
        assert _bits(_fitted(path, cache_dir=kept)) == _expected()
        assert len(made) == 2
        assert tiles.read_bytes() == content

    def test_tiles_of_an_older_format_are_made_anew(
        self, path, tmp_path, made, monkeypatch
    ):
        """Also under the same key and the same name, whole and unchanged."""
        kept = tmp_path / "cache"
        with monkeypatch.context() as older:
            older.setattr("corrdp.tables._array_file._MAGIC", b"CORRDPT1")
            _fitted(path, cache_dir=kept)
        (tiles,) = kept.glob("*.tiles")
        assert tiles.read_bytes().startswith(b"CORRDPT1")
        assert _bits(_fitted(path, cache_dir=kept)) == _expected()
        assert len(made) == 2
        assert list(kept.glob("*.tiles")) == [tiles]
        assert tiles.read_bytes().startswith(b"CORRDPT2")

    def test_a_filtered_dataset_never_gets_the_tiles_of_another(self, path, tmp_path):
        """Datasets of the same files are told apart by nothing but their rows."""
        kept, whole = tmp_path / "cache", ds.dataset(path)
        for bound in (30, 40, 50):
            # Each is gone before the next one is made, often at the same address.
            data = whole.filter(pc.field("age") > bound)
            assert _bits(_fitted(data, cache_dir=kept)) == _bits(_fitted(data))
            del data
        assert [p.name for p in kept.iterdir()] == [".key"]

    def test_rows_in_the_log_of_a_database_have_tiles_of_their_own(self, tmp_path):
        kept, place = tmp_path / "cache", tmp_path / "rows.db"
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("pragma journal_mode = wal")
            FRAME.to_sql("t", connection, index=False)
            connection.execute("pragma wal_checkpoint(truncate)")
            before = _bits(_fitted(f"{place}::t", cache_dir=kept))
            connection.execute("delete from t where rowid % 2 = 0")
            connection.commit()
            changed = _bits(_fitted(f"{place}::t", cache_dir=kept))
            assert changed == _bits(_fitted(f"{place}::t")) != before

    def test_what_cannot_be_named_is_not_kept(self, tmp_path, made):
        kept = tmp_path / "cache"
        reader = pa.Table.from_pandas(FRAME).to_reader(max_chunksize=100)
        declared = _bits(_fitted(FRAME, bounds="declared"))
        assert _bits(_fitted(reader, cache_dir=kept)) == declared
        assert [p.name for p in kept.iterdir()] == [".key"]


def test_a_fit_that_breaks_off_leaves_nothing(tmp_path):
    def batches():
        yield from pa.Table.from_pandas(FRAME).to_batches(max_chunksize=1000)
        raise KeyboardInterrupt

    schema = pa.Table.from_pandas(FRAME).schema
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises((KeyboardInterrupt, CorrDPError)):
        _fitted(reader)
    assert _left(tmp_path) == []


KILLED = """
import sys, time
from corrdp import LogisticRegression
from corrdp.policy import Policy
from corrdp.training.rows import _segments, _workers
_segments._LEAST_ROWS = _segments._MOST_ROWS = 512
started = _workers.SegmentWorkers._started
def telling(self, segments):
    worker = started(self, segments)
    print(worker.process.pid, flush=True)
    return worker
_workers.SegmentWorkers._started = telling
def asked(certificate):
    print("asked", flush=True)
    time.sleep(1000)
policy = Policy.from_file("policy.toml")
model = LogisticRegression(policy, epsilon=1.0, delta=1e-6, n_steps=8, n_jobs=2)
model.fit("rows.parquet", charge=asked)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_fit_that_is_killed_leaves_no_file_and_no_worker(how, tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    example_policy().to_file(tmp_path / "policy.toml")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", KILLED],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as driver:
        workers = [int(driver.stdout.readline()) for _ in range(2)]
        assert driver.stdout.readline() == "asked\n"
        driver.send_signal(how)
    assert driver.returncode != 0
    assert _left(tmp_path) == []
    while any(Path(f"/proc/{number}").exists() for number in workers):
        time.sleep(0.05)  # they end when their pipe does


def test_a_refused_charge_stops_before_the_first_step(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")

    def refuse(certificate):
        raise BudgetError("no")

    with pytest.raises(BudgetError, match="no"):
        model_of().fit(tmp_path / "rows.parquet", charge=refuse)
    assert _left(tmp_path) == []


def test_a_cell_outside_its_domain_is_named_by_its_column(tmp_path):
    frame = FRAME.assign(city=np.where(np.arange(len(FRAME)) == 2000, "MARKER", "x"))
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(PolicyError, match="'city'") as caught:
        _fitted(tmp_path / "rows.parquet")
    assert "MARKER" not in str(caught.value)
    assert _left(tmp_path) == []


def test_labels_of_a_source_are_its_own(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(CorrDPError, match="Leave y out"):
        model_of().fit(tmp_path / "rows.parquet", FRAME["rich"])
    sensitive = LogisticRegression(AllSensitive(0, 1), epsilon=1.0, delta=1e-6)
    with pytest.raises(PolicyError, match="need a Policy with a label"):
        sensitive.fit(tmp_path / "rows.parquet")


def test_labels_may_be_any_column():
    X, y = FRAME.drop(columns="rich"), FRAME["rich"]
    columns = (y, y[::-1][::-1], y.tolist(), tuple(y), y.to_numpy())
    for column in (*columns, y.to_numpy()[:, None], pa.chunked_array([y[:9], y[9:]])):
        assert _bits(model_of(n_steps=8).fit(X, column)) == _expected()
    with pytest.raises(PolicyError, match="must be a series, an array or a list"):
        model_of().fit(X, {"rich": 1})


def test_lengths_must_agree():
    with pytest.raises(CorrDPError, match="equally many rows, got 2500 and 2499"):
        model_of().fit(FRAME, FRAME["rich"][:-1])


def test_leakage_and_queries_take_sources(directory):
    ordered = FRAME.sort_values("city", kind="stable")
    age, *others = example_policy().features
    binned = replace(age, domain=NumberDomain(0, 100, bins=8))
    policy = replace(example_policy(), features=(binned, *others))
    questions = ["mean(age)", "count() by city"]
    sources = (ordered, directory, ds.dataset(pa.Table.from_pandas(ordered)))
    tables = [
        estimate_leakage(
            rows, policy, epsilon=1.0, delta=1e-6, random_state=0, research=True
        ).to_dict()
        for rows in sources
    ]
    assert tables[0] == tables[1] == tables[2]
    results = [
        answer_queries(rows, policy, questions, epsilon=1.0, random_state=0)
        for rows in sources
    ]
    assert results[0].answers == results[1].answers == results[2].answers


def test_a_ledger_knows_a_file_for_the_table_it_was_charged_for(tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    policy = example_policy()
    ledger = Ledger.create(
        tmp_path / "l.ledger", policy, budget=Budget(epsilon=10, delta=1e-5)
    )
    # The parser of pandas before 3 reads numbers with an error in the last digit.
    held = pd.read_csv(tmp_path / "rows.csv", engine="pyarrow")
    assert ledger.fingerprint(tmp_path / "rows.csv", policy=policy) == (
        ledger.fingerprint(held, policy=policy)
    )


def test_wide_rows_are_encoded_fewer_at_once(monkeypatch):
    """A feature of 30,000 levels would ask for gigabytes a batch; bits stay."""
    encoded = []
    transform = tiled.PolicyEncoder.transform_columns

    def watched(encoder, table):
        codes = transform(encoder, table)
        encoded.append(codes.size)
        return codes

    expected = _expected()
    monkeypatch.setattr(tiled, "BATCH_CODES", 1000)
    monkeypatch.setattr(tiled.PolicyEncoder, "transform_columns", watched)
    assert _bits(_fitted(FRAME)) == expected
    assert max(encoded) <= 1000
    assert len(encoded) > 10
