"""What `make audit` does beside Lighthouse: it serves as Pages does, takes medians, and is red below the bar."""
import gzip
import sys
import urllib.error
import urllib.request

import audit
import pytest
from support import TOP


BAR = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 100, "paint": 2000.0, "blocked": 0, "shift": 0}


@pytest.fixture
def server(tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en/index.html").write_text("<p>" + "text " * 1000)
    (tmp_path / "404.html").write_text("<p>nothing here")
    (tmp_path / "x.wasm").write_bytes(bytes(1000))
    running = audit.serve(tmp_path)
    yield f"http://127.0.0.1:{running.server_port}/"
    running.shutdown()


def get(address):
    return urllib.request.urlopen(urllib.request.Request(address, headers={"Accept-Encoding": "gzip"}), timeout=10)


def test_text_is_served_compressed_and_the_rest_as_it_is(server):
    with get(server + "en/") as answer:
        body = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip" and answer.headers["Content-Type"] == "text/html; charset=utf-8" and answer.version == 11
        assert gzip.decompress(body).decode() == "<p>" + "text " * 1000 and len(body) < 200
    with get(server + "x.wasm") as answer:
        assert answer.headers["Content-Encoding"] is None and answer.headers["Content-Type"] == "application/wasm" and answer.read() == bytes(1000)
    with get(server + "en") as answer:
        assert answer.url == server + "en/"
    with pytest.raises(urllib.error.HTTPError) as missing:
        get(server + "nowhere/")
    assert missing.value.code == 404 and gzip.decompress(missing.value.read()) == b"<p>nothing here"


@pytest.mark.parametrize("change, said", [
    ({}, None), ({"performance": 94}, "performance 94, at least 95"), ({"accessibility": 99}, "accessibility 99, at least 100"),
    ({"best-practices": 96}, "best-practices 96"), ({"seo": 92}, "seo 92"), ({"paint": 2001.0}, "largest paint after 2.00 s, at most 2.0 s"),
])
def test_below_the_bar_is_named(change, said):
    found = audit.failures("en/", {**BAR, **change})
    assert found == [] if said is None else len(found) == 1 and said in found[0] and found[0].startswith("en/: ")


def report(score, paint, title="Image elements have [alt] attributes", passed=1):
    audits = {name: {"numericValue": paint, "title": name, "score": 1} for name in ("largest-contentful-paint", "total-blocking-time", "cumulative-layout-shift")}
    audits["image-alt"] = {"title": title, "score": passed, "details": {"items": [{"node": {"snippet": "<img src=x>"}}]}}
    return {"audits": audits, "categories": {name: {"score": score, "auditRefs": [{"id": "image-alt", "weight": 1}]} for name in audit.LEAST}}


def test_medians_of_three_and_what_to_mend():
    row, mend = audit.summary([report(0.90, 3000), report(0.97, 1000), report(1.0, 1500, passed=0)])
    assert row["performance"] == 97 and row["paint"] == 1500 and row["seo"] == 97
    assert mend["seo: Image elements have [alt] attributes"] == "<img src=x>"


def test_a_page_that_is_not_there_ends_it_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(audit.browser, "find", lambda: "chromium")
    monkeypatch.setattr(audit, "LIGHTHOUSE", TOP / "Makefile")
    with pytest.raises(SystemExit, match="has no page en/lessons/"):
        audit.main(str(tmp_path), "en/lessons/")
