"""Pieces of a table in files: every row once, in order, and the driver opens none."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from corrdp.tables import FilePiece, _pieces, iter_batches, pieces_of

ROWS = pd.DataFrame({"n": range(100), "t": [f"0{i}" for i in range(100)]})


def _read(pieces):
    held = [
        batch
        for piece in pieces
        for batch in FilePiece.from_text(piece.to_text()).batches(["t", "n"], ["n"])
    ]
    return pa.concat_tables(held).to_pydict()


def _whole(source):
    held = iter_batches(source, ["t", "n"], number_columns=["n"])
    return pa.concat_tables(held, promote_options="permissive").to_pydict()


@pytest.mark.parametrize("piece_bytes", [100, 500, 700, 2**26])
def test_pieces_of_a_file_are_its_rows_in_their_order(
    piece_bytes, tmp_path, monkeypatch
):
    path = tmp_path / "a.parquet"
    ROWS.to_parquet(path, row_group_size=15)
    monkeypatch.setattr(_pieces, "PIECE_BYTES", piece_bytes)
    pieces = pieces_of(path)
    assert len(pieces) == 1 + path.stat().st_size // piece_bytes
    assert _read(pieces) == _whole(path)


def test_folders_of_pieces_are_columns(tmp_path):
    for name in ("n=3", "n=__HIVE_DEFAULT_PARTITION__", "n=no%20number"):
        (tmp_path / name).mkdir()
        ROWS[["t"]].to_csv(tmp_path / name / "a.csv", index=False)
    pieces = pieces_of(tmp_path)
    assert [piece.folders["n"] for piece in pieces] == ["3", None, "no number"]
    assert _read(pieces) == _whole(tmp_path)


def test_whoever_cuts_opens_no_file(tmp_path, monkeypatch):
    ROWS.to_parquet(tmp_path / "a.parquet")
    ROWS.to_csv(tmp_path / "b.csv")
    opened = []
    for name in ("open", "read_bytes", "read_text"):
        monkeypatch.setattr(Path, name, lambda *_, **__: opened.append(1))
    pieces = pieces_of(tmp_path)
    assert len(pieces) == 2
    assert not opened


def test_a_link_is_read_under_its_own_name(tmp_path):
    ROWS.to_parquet(tmp_path / "content-1f3a")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "a.parquet").symlink_to(tmp_path / "content-1f3a")
    assert _read(pieces_of(tmp_path / "table")) == _whole(tmp_path / "table")


def test_a_database_has_no_pieces(tmp_path):
    assert pieces_of(f"{tmp_path / 'rows.db'}::people") is None
