"""The page about a run as a browser shows it: nothing fetched, nothing wider than a phone."""

import json
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from policy.policies import make_policy, random_paths

from lit_ios.report import RunFacts, write_report

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
PHONE, WIDE = 390, 1200
FRAMES = """<!doctype html><title>frames</title>
<iframe src="report.html" width="390" height="800"></iframe>
<iframe src="report.html" width="1200" height="800"></iframe>
<pre id="seen"></pre>
<script>
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, of = name => [...page.querySelectorAll(name)];
    const box = drawing => drawing.getBoundingClientRect();
    const sizes = of("svg text").map(text => box(text).height).filter(size => size > 0);
    return {
      width: page.documentElement.scrollWidth,
      drawings: of("figure svg").map(drawing => [box(drawing).width, box(drawing).height]),
      text: Math.min(...sizes),
      back: getComputedStyle(page.body).backgroundColor,
      ink: getComputedStyle(page.body).color,
    };
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script>"""


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder and remembers what was asked for."""

    def log_message(self, *args):
        self.server.asked.append(self.path)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a server of a folder with a report, and with a page that shows it twice."""
    folder = tmp_path_factory.mktemp("page")
    policy = make_policy("do_iqs_lb", members=2)
    policy.calibrate(random_paths(40, seed=9), max_event_miss_rate=0.4)
    policy.save(folder / "policy.ckpt")
    facts = RunFacts(folder / "policy.ckpt", policy, random_paths(60))
    other = RunFacts(folder / "policy.ckpt", policy, random_paths(50, seed=4), "a-long-name.csv")
    write_report([facts, other], folder / "report.html")
    (folder / "frames.html").write_text(FRAMES)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def shown(server, tmp_path, *options):
    """Return what the two frames show."""
    words = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path}", "--window-size=1300,1800", *options, "--dump-dom",
        "--virtual-time-budget=10000", f"http://127.0.0.1:{server.server_port}/frames.html",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="seen">(.+?)</pre>', done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(found[1])


def test_a_page_fits_a_phone_and_a_wide_screen_and_fetches_nothing(served, tmp_path):
    phone, wide = shown(served, tmp_path)
    assert phone["width"] <= PHONE
    assert wide["width"] <= WIDE
    assert set(served.asked) <= {"/frames.html", "/report.html", "/favicon.ico"}
    assert len(phone["drawings"]) > 5
    for frame in (phone, wide):
        assert all(width > 300 and height > 80 for width, height in frame["drawings"])
    assert phone["text"] > 8  # pixels, of the smallest word in a figure
    assert wide["text"] > 11


def test_a_page_is_dark_where_that_is_liked(served, tmp_path):
    light, dark = (
        shown(served, tmp_path / name, *options)[0]
        for name, options in (
            ("light", ["--blink-settings=preferredColorScheme=1"]),
            ("dark", ["--blink-settings=preferredColorScheme=0"]),
        )
    )

    def brightness(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert brightness(light["back"]) > 700 > 200 > brightness(light["ink"])
    assert brightness(dark["back"]) < 100 < 600 < brightness(dark["ink"])
