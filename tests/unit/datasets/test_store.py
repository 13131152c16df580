"""Tables are found, or fetched whole and checked, or refused without a trace.

Nothing here reaches the network: origins are files, or a server in this process.
"""

import gzip
import hashlib
import io
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from corrdp.datasets import _store
from corrdp.datasets._store import (
    ORIGINS,
    adult_csv,
    find_table,
    medical_cost_csv,
    sepsis_csv,
    user_cache,
)
from corrdp.exceptions import CorrDPError, CorrDPWarning

PUBLISHED = b"age,charges\r\n18,1.5\r\n64,2.5"
TABLE = b"age,charges\n18,1.5\n64,2.5\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return an empty user cache, with no other place to look."""
    monkeypatch.delenv("CORRDP_DATA_DIR", raising=False)
    monkeypatch.setattr(_store.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return user_cache()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Return a function that puts a small table where Medical Cost is published."""

    def put(content=PUBLISHED, *, url=None, table=TABLE):
        path = tmp_path / "published.csv"
        path.write_bytes(content)
        origin = replace(
            ORIGINS["medical_cost"],
            url=url or path.as_uri(),
            sha256=hashlib.sha256(table).hexdigest(),
        )
        monkeypatch.setitem(ORIGINS, "medical_cost", origin)

    return put


def left_in(directory):
    return sorted(path.name for path in directory.glob("**/*") if path.is_file())


def test_a_directory_comes_before_the_environment_before_the_cache(
    tmp_path, cache, publish, monkeypatch
):
    publish()
    places = [tmp_path / "named", tmp_path / "environment", cache]
    for place in places:
        place.mkdir(parents=True)
        (place / "medical_cost.csv").write_bytes(TABLE)
    monkeypatch.setenv("CORRDP_DATA_DIR", str(places[1]))
    asked = []
    read = _store._read
    monkeypatch.setattr(
        _store, "_read", lambda place, *rest: asked.append(place) or read(place, *rest)
    )
    assert find_table("medical_cost", places[0]) == TABLE
    assert find_table("medical_cost") == TABLE
    (places[1] / "medical_cost.csv").unlink()
    assert find_table("medical_cost") == TABLE
    assert asked == [places[0], places[1], places[1], cache]


def test_a_download_is_converted_checked_and_kept(cache, publish):
    publish()
    assert find_table("medical_cost") == TABLE
    assert left_in(cache) == ["medical_cost.csv.gz"]
    assert gzip.decompress((cache / "medical_cost.csv.gz").read_bytes()) == TABLE
    publish(b"gone")
    # the origin has changed, but the cache holds the table: no second download
    assert find_table("medical_cost") == TABLE


def test_a_changed_origin_is_refused_and_nothing_is_left_behind(cache, publish):
    publish(PUBLISHED + b"\r\n65,3.5")
    with pytest.raises(CorrDPError, match=r"was not kept.*By hand: download"):
        find_table("medical_cost")
    assert left_in(cache) == []


class _BreaksOff(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(PUBLISHED)

    def log_message(self, *_):
        pass


def test_an_interrupted_download_is_refused_and_nothing_is_left_behind(cache, publish):
    with HTTPServer(("127.0.0.1", 0), _BreaksOff) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        publish(url=f"http://127.0.0.1:{server.server_port}/insurance.csv")
        with pytest.raises(CorrDPError, match=r"failed.*By hand"):
            find_table("medical_cost")
        thread.join()
    assert left_in(cache) == []


def test_an_unreachable_origin_says_what_to_do(cache, publish, tmp_path):
    publish(url=(tmp_path / "nowhere.csv").as_uri())
    with pytest.raises(CorrDPError, match="set CORRDP_DATA_DIR to its directory"):
        find_table("medical_cost")


def test_a_cache_that_cannot_be_written_costs_only_a_warning(
    cache, publish, tmp_path, monkeypatch
):
    publish()
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.warns(CorrDPWarning, match="cannot be kept"):
        assert find_table("medical_cost") == TABLE


def test_a_write_that_fails_leaves_no_half_file(cache, publish, monkeypatch):
    publish()

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_store.os, "replace", full_disk)
    with pytest.warns(CorrDPWarning, match="No space left"):
        assert find_table("medical_cost") == TABLE
    assert left_in(cache) == []


def test_a_table_published_as_a_spreadsheet_is_left_to_the_reader(cache):
    with pytest.raises(CorrDPError, match="open the spreadsheet"):
        find_table("credit_card")


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "adult.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(CorrDPError, match="cannot be unpacked"):
        find_table("adult", tmp_path)


def test_something_else_at_the_origin_is_refused(cache, monkeypatch, tmp_path):
    page = tmp_path / "adult.zip"
    page.write_bytes(b"<html>moved</html>")
    monkeypatch.setitem(ORIGINS, "adult", replace(ORIGINS["adult"], url=page.as_uri()))
    with pytest.raises(CorrDPError, match="not what was expected"):
        find_table("adult")
    assert left_in(cache) == []


def archive(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("_DOT_", "."), content)
    return packed.getvalue()


def test_adult_is_joined_with_test_rows_first():
    published = archive(
        adult_DOT_data="39, State-gov, <=50K\n\n",
        adult_DOT_test="|1x3 Cross validator\n25, Private, >50K.\n\n",
    )
    lines = adult_csv(published).decode().splitlines()
    assert lines[0].startswith("age,workclass,fnlwgt")
    assert lines[1:] == ["25,Private,>50K", "39,State-gov,<=50K"]


def test_sepsis_is_found_in_an_archive_within_an_archive():
    inner = archive(sepsis_primary_cohort_DOT_csv=b"age\n1\n")
    assert sepsis_csv(archive(inner_DOT_zip=inner)) == b"age\n1\n"
    with pytest.raises(zipfile.BadZipFile):
        sepsis_csv(archive(other_DOT_csv=b""))


def test_lines_of_medical_cost_all_end_alike():
    assert medical_cost_csv(PUBLISHED) == TABLE


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("win32", "LOCALAPPDATA", "place/corrdp"),
        ("linux", "XDG_CACHE_HOME", "place/corrdp"),
        ("darwin", "HOME", "place/Library/Caches/corrdp"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(
    monkeypatch, platform, variable, expected
):
    monkeypatch.setattr(_store.sys, "platform", platform)
    monkeypatch.setenv(variable, "place")
    assert user_cache().as_posix() == expected
