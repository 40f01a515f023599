"""Lighthouse's verdict on the pages, as GitHub Pages would serve them to a phone: medians of three, a table, and exit status 1 below the bar. `make audit` runs this.

python tools/lighthouse/audit.py SITE [PAGE…]
"""
import functools
import gzip
import http.server
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import browser  # noqa: E402
from tree import LANGUAGES  # noqa: E402

PAGES = [f"{lang}/{page}" for lang in LANGUAGES for page in ("", "lesson/", "decode/")]
LEAST = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 100}
LARGEST_PAINT = 2000   # ms
RUNS = 3
LIGHTHOUSE = HERE / "node_modules" / "lighthouse" / "cli" / "index.js"


class Compressed(http.server.SimpleHTTPRequestHandler):
    """Serves a folder as GitHub Pages does: text compressed with gzip, kept for ten minutes, one connection for many requests."""

    protocol_version = "HTTP/1.1"
    TEXT = (".html", ".css", ".js", ".mjs", ".json", ".svg", ".xml", ".txt", ".py")

    def do_GET(self):
        path = pathlib.Path(self.translate_path(self.path))
        if path.is_dir() and not self.path.split("?")[0].endswith("/"):
            return super().do_GET()   # which sends the reader to the address with a slash
        path = path / "index.html" if path.is_dir() else path
        found = path.is_file()
        path = path if found else pathlib.Path(self.directory) / "404.html"
        squeezed = path.suffix in self.TEXT and "gzip" in self.headers.get("Accept-Encoding", "")
        body = _squeezed(path, path.stat().st_mtime_ns) if squeezed else path.read_bytes()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", self.guess_type(path.name) + ("; charset=utf-8" if path.suffix in self.TEXT else ""))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        if squeezed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@functools.lru_cache(maxsize=None)
def _squeezed(path, changed):
    return gzip.compress(path.read_bytes(), 6, mtime=0)


def serve(folder, handler=Compressed):
    """A running server of the folder, on a free port of this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def judge(address):
    """One report of Lighthouse, with its own throttling of a phone."""
    flags = ["--headless=new", *browser.FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    done = subprocess.run(
        ["node", str(LIGHTHOUSE), address, "--quiet", "--no-enable-error-reporting", "--output=json", f"--only-categories={','.join(LEAST)}", f"--chrome-flags={' '.join(flags)}"],
        capture_output=True, text=True, timeout=180, env={**os.environ, "CHROME_PATH": browser.find()},
    )
    if done.returncode:
        sys.exit(f"Lighthouse could not judge {address}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def summary(reports):
    """{measure: median} of reports of one page, and what to mend: {title: detail} of each audit that cost points."""
    row = {name: round(100 * statistics.median(report["categories"][name]["score"] for report in reports)) for name in LEAST}
    for name, audit in {"paint": "largest-contentful-paint", "blocked": "total-blocking-time", "shift": "cumulative-layout-shift"}.items():
        row[name] = statistics.median(report["audits"][audit]["numericValue"] for report in reports)
    mend = {}
    for report in reports:
        for category in LEAST:
            for reference in report["categories"][category]["auditRefs"]:
                audit = report["audits"][reference["id"]]
                if reference["weight"] and audit["score"] is not None and audit["score"] < 0.9:
                    items = (audit.get("details") or {}).get("items", [])[:3]
                    mend[f"{category}: {audit['title']}"] = " ".join([audit.get("displayValue", ""), *(str(item.get("node", {}).get("snippet", item.get("url", item.get("description", "")))) for item in items)]).strip()
    return row, mend


def failures(page, row):
    """What of a page's row lies below the bar."""
    found = [f"{page}: {name} {row[name]}, at least {least}" for name, least in LEAST.items() if row[name] < least]
    return found + ([f"{page}: largest paint after {row['paint'] / 1000:.2f} s, at most {LARGEST_PAINT / 1000:.1f} s"] if row["paint"] > LARGEST_PAINT else [])


def main(site, *pages):
    if not browser.find():
        sys.exit("No Chromium was found: `make browser` installs one.")
    if not LIGHTHOUSE.is_file():
        sys.exit("Lighthouse is not installed: `make audit` installs it.")
    for page in pages or PAGES:
        if not (pathlib.Path(site) / page / "index.html").is_file():
            sys.exit(f"{site} has no page {page}. Pages are written like en/lesson/.")
    server = serve(site)
    print(f"{'page':14}{'performance':>12}{'accessibility':>14}{'best practices':>15}{'SEO':>5}{'largest paint':>15}{'blocked':>10}{'shift':>8}   medians of {RUNS}")
    failed = []
    for page in pages or PAGES:
        row, mend = summary([judge(f"http://127.0.0.1:{server.server_port}/{page}") for _ in range(RUNS)])
        print(f"{page:14}{row['performance']:12}{row['accessibility']:14}{row['best-practices']:15}{row['seo']:5}{row['paint'] / 1000:13.2f} s{row['blocked']:7.0f} ms{row['shift']:8.3f}", flush=True)
        if found := failures(page, row):
            failed += found + [f"    {title}: {detail}" for title, detail in mend.items()]
    server.shutdown()
    if failed:
        sys.exit("Below the bar:\n" + "\n".join(failed))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
