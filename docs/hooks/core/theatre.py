"""The tile theatre (docs/theme/js/theatre.js) as it stands before a script runs: the same file draws the still picture, in Node; and the picture of a shared link.

Bytes follow from the traces; what hardware counters saw comes from the lab hbm_traffic.
"""
import functools
import html
import io
import json
import shutil
import subprocess

from .errors import PageError

START = {"S": 4096, "Br": 128, "Bc": 64, "kv": 28, "causal": False, "l2": False, "H": 28, "d": 128, "e": 2}   # the shape that the labs measure, PyTorch's tile
CHOICES = {"S": [512, 1024, 2048, 4096, 8192], "Br": [64, 128, 256], "Bc": [32, 64, 128], "kv": [28, 14, 7, 4, 2, 1]}
FORMS = {"home": {"l2": True, "at": 0.3}, "lesson": {"l2": False, "at": 0.5}}   # at: the moment of the still picture, a part of naive's bytes
NAMES = {"naive": "PyTorch", "flash": "PyTorch", "cudnn": "cuDNN"}   # whose program was counted
LAB = "hbm_traffic"
STEPS = ("scores", "softmax", "output")   # naive's kernels here; the measured program has one more, for the division by sqrt(d)
RUN = """import { pathToFileURL } from "node:url";
let text = ""; for await (const part of process.stdin) text += part;
const { script, forms, words } = JSON.parse(text), { still } = await import(pathToFileURL(script)), each = (of, made) => Object.fromEntries(Object.entries(of).map(([name, value]) => [name, made(value)]));
console.log(JSON.stringify(each(forms, (data) => each(words, (said) => still(data, said)))));"""


def measured(results, gpu):
    """What the counters of a card saw of the theatre's shapes: [program, whose, S, causal, bytes at device memory, bytes between chip and L2]."""
    if (gpu, LAB) not in results:
        return []
    rows, found = [row for row in results[gpu, LAB]["rows"] if row["part"] == "kernel" and row["status"] == "ok"], []
    for impl, name in NAMES.items():
        for S in CHOICES["S"]:
            for causal in (False, True):
                own = [row for row in rows if (row["impl"], row["S"], row["causal"]) == (impl, S, causal) and (impl != "naive" or row["step"] in STEPS)]
                if own and all(isinstance(row[cell], int) for row in own for cell in ("read_bytes", "write_bytes", "sm_bytes")) and not (impl == "naive" and causal):   # measured naive hides scores in a kernel of its own
                    dram, sm = sum(row["read_bytes"] + row["write_bytes"] for row in own), sum(row["sm_bytes"] for row in own)
                    found.append([impl, name, S, causal, dram, sm])
    return found


def still(top, results, scripts, gpu="nvidia-h200"):
    """{form: {lang: both sides as theatre.js draws them, data: what the page hands it}}, and whose counters they show."""
    node = shutil.which("node")
    if node is None:
        raise PageError("Node 20 or newer is needed to draw the theatre, and no `node` is on the PATH.")
    forms = {form: {"start": {**START, "l2": said["l2"]}, "at": said["at"], "choices": CHOICES, "measured": measured(results, gpu), "gpu": results[gpu, LAB]["machine"]["gpu"] if (gpu, LAB) in results else ""} for form, said in FORMS.items()}
    given = {"script": str(top / "docs/theme/js/theatre.js"), "forms": forms, "words": {lang: said["theatre"] for lang, said in scripts.items()}}
    done = subprocess.run([node, "--input-type=module", "-e", RUN], input=json.dumps(given), capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise PageError(f"docs/theme/js/theatre.js cannot draw: {done.stderr.strip()[-300:]}")
    return {"gpu": gpu, **{form: {**made, "data": forms[form]} for form, made in json.loads(done.stdout).items()}}


def render(form, start, numbers):
    """HTML of the widget; `start` opens it: a section, since the search forgets to leave out a div at the end of the first div in it. form: home, or lesson, where the shape is at hand at once."""
    words, made = numbers.words, numbers.book.theatre[form]
    sides = made[numbers.place.lang]
    text = json.dumps(made["data"], separators=(",", ":")).replace("<", "\\u003c")
    if made["data"]["measured"]:
        numbers.result({"gpu": numbers.book.theatre["gpu"], "lab": LAB})   # shown: the page says so when it is stale, and where it comes from
    open_ = " open" if form == "lesson" else ""
    sliders = "".join(f'<label><span>{label}</span><input type="range" name="{name}" min="0" max="{len(CHOICES[name]) - 1}" value="{CHOICES[name].index(START[name])}"><output>{START[name]}</output></label>'
                      for name, label in (("S", words.theatre.length), ("Br", words.theatre.rows), ("Bc", words.theatre.columns), ("kv", words.theatre.shared)))
    check = {name: f'<label class="check"><input type="checkbox" name="{name}"{" checked" * made["data"]["start"][name]}> {label}</label>' for name, label in (("l2", words.theatre.switch), ("causal", words.theatre.causal))}
    return (
        start
        + f'<div class="bar controls"><button type="button" class="play primary">{words.theatre.play}</button>'
        + f'<button type="button" class="back" aria-label="{words.theatre.back}" title="{words.theatre.back}">◀\ufe0e</button><button type="button" class="forward" aria-label="{words.theatre.forward}" title="{words.theatre.forward}">▶\ufe0e</button>'
        + f'<input type="range" class="scrub" min="0" max="1000" value="{round(1000 * made["data"]["at"])}" aria-label="{words.theatre.scrub}">{check["l2"]}</div>'
        + f'<div class="sides">{side("naive", words.theatre.naive, words.theatre.naive_shows, sides["naive"])}{side("flash", words.theatre.flash, words.theatre.flash_shows, sides["flash"])}</div>'
        + f'<details class="controls"{open_}><summary>{words.theatre.shape}</summary><div class="sliders">{sliders}{check["causal"]}</div></details>'
        + f'<p class="hint">{words.theatre.note}</p><p class="announced" role="status"></p>'
        + f'<script type="application/json">{text}</script></section>'
    )


def side(name, title, shows, made):
    say = {key: html.escape(made[key]) for key in ("count", "now", "ends", "counted")}
    return (
        f'<div class="side {name}"><p class="head"><b>{title}</b> <span class="count">{say["count"]}</span></p>'
        f'<svg class="track" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="1"/><rect class="share" width="{100 * made["part"]:.2f}" height="1"/></svg>'
        f'<svg class="scene" viewBox="0 0 440 370" role="img" aria-label="{shows}">'
        + ('<defs><pattern id="theatre-read" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" class="hatch"/></pattern></defs>' if name == "naive" else "")
        + f'<g>{made["svg"]}</g></svg><div class="said"><p class="now">{say["now"]}</p><p class="ends">{say["ends"]}</p><p class="counted">{say["counted"]}</p></div></div>'
    )


PAPER = {"hbm": "#eceff5", "sram": "#e0f3f0", "strip": "#ffffff", "square": "#ffffff", "s": "#a8480a", "p": "#a8480a", "q": "#0b6e69", "o": "#0b6e69", "m": "#0b6e69", "k": "#7a3bd1", "v": "#7a3bd1"}
INK, MUTED = "#1f2633", "#586274"


def picture(made, words):
    """PNG, 1200 x 630, of the English still picture: what a messenger shows of a page."""
    return _png(json.dumps({name: [made["home"]["en"][name][key] for key in ("shapes", "count")] for name in ("naive", "flash")}), words.theatre.title.text)


@functools.lru_cache(maxsize=4)
def _png(key, title):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    with matplotlib.rc_context({"font.sans-serif": ["DejaVu Sans"]}):
        figure = Figure(figsize=(12, 6.3), dpi=100, facecolor="#ffffff")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 1200), ylim=(630, 0))
        axes.axis("off")
        axes.text(48, 62, title, size=31, weight="bold", color=INK, va="center")
        for n, (name, (shapes, count)) in enumerate(json.loads(key).items()):
            x0, y0, zoom = 48 + 566 * n, 152, 1.18
            axes.text(x0, 124, name if name == "naive" else "FlashAttention", size=21, weight="bold", color=PAPER["s" if name == "naive" else "q"], va="center")
            axes.text(x0 + 440 * zoom, 124, count, size=24, weight="bold", color=INK, ha="right", va="center")
            for kind, look, x, y, *rest in shapes:
                x, y, looks = x0 + zoom * x, y0 + zoom * y, look.split()
                if kind == "line":
                    axes.plot([x, x0 + zoom * rest[0]], [y, y], color=PAPER["k"], linewidth=2.2, dashes=(4, 2.4))
                elif kind == "text":
                    anchor = {"end": "right", "middle": "center"}.get(looks[-1], "left")
                    axes.text(x, y, rest[0], size=13 if looks[0] != "letter" else 16, style="italic" if looks[0] == "letter" else "normal", color=INK if looks[0] == "letter" else MUTED, ha=anchor, va="baseline")
                else:
                    fill = "none" if looks[0] in ("ghost", "read", "lit") else PAPER.get(looks[-1], "none")
                    edge = {"ghost": MUTED, "read": "#ffffff", "strip": MUTED, "square": PAPER["s"], "lit": INK}.get(looks[0], "none")
                    axes.add_patch(Rectangle((x, y), zoom * rest[0], zoom * rest[1], facecolor=fill, edgecolor=edge, linewidth=0 if looks[0] == "read" else 1.1,
                                             linestyle="--" if looks[0] == "ghost" else "-", hatch="///" if looks[0] == "read" else None))
        made = io.BytesIO()
        FigureCanvasAgg(figure).print_png(made, metadata={"Software": None})
        return made.getvalue()
