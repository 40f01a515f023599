"""The glossary has every term the pages use, and the first use of each on a page leads to its entry."""
import functools
import html.parser
import re

import pytest
from core import glossary
from core.errors import PageError
from mkdocs.utils import meta
from support import LANGUAGES, TOP
from test_parity import NAMES, prose

ENTRIES = {}
for _lang in LANGUAGES:
    _markdown, _front = meta.get_data((TOP / "docs" / _lang / "glossary.md").read_text("utf-8"))
    ENTRIES[_lang] = glossary.entries(_markdown, _front["words"])


# The build step, which is pure.

GLOSSARY = """# Glossary

## Tile { #tile }

A block of [rows](#rows) of `q`. It fits on the chip.

## HBM, device memory { #hbm }

Memory "outside" the chip.

## Online softmax（在线 softmax） { #online }

在线计算。逐块进行。
"""


def linked(content, words=None, address="../glossary/"):
    entries = glossary.entries(GLOSSARY, words or {})
    return glossary.link(content, entries, glossary.pattern([word for entry in entries for word in entry.words]), address)


def term(entry, title, text, address="../glossary/"):
    return f'<a class="term" href="{address}#{entry}">{text}</a>'


TILE = "A block of rows of q."


@pytest.mark.parametrize("content, wanted", [
    ("<p>Tiles and a tile.</p>", f"<p>{term('tile', TILE, 'Tiles')} and a tile.</p>"),
    ("<p>textile, tile_q, sub-tile, tile-wise, x/tile</p>", None),
    ("<p>a hbm</p>", None),
    ("<p>in device\nmemory, HBM</p>", f"<p>in {term('hbm', 'Memory &quot;outside&quot; the chip.', 'device' + chr(10) + 'memory')}, HBM</p>"),
    ("<p>用在线 softmax 分块</p>", f"<p>用{term('online', '在线计算。', '在线 softmax')} 分块</p>"),
    ('<div class="headlines"><div>tile</div> tile</div>', None),
    *[(f"<{tag}>tile</{tag}>", None) for tag in ("code", "pre", "h2", "th", "summary", "data", "button", "math", "svg")],
    ('<a href="x">the tile</a> <i>tile</i>', f'<a href="x">the tile</a> <i>{term("tile", TILE, "tile")}</i>'),
    ('<p><a href="../glossary/#tile">it</a>, a tile</p>', None),
    ('<span class="arithmatex">\\(tile\\)</span>', None),
    ('<p class="admonition-title">Tile</p>', None),
    ('<div class="widget widget-run" data-x="a > b"><p>tile<br>tile</p></div><p>tile</p>',
     f'<div class="widget widget-run" data-x="a > b"><p>tile<br>tile</p></div><p>{term("tile", TILE, "tile")}</p>'),
    ('<!-- tile --><img alt="tile"><p title="tile">no</p>', None),
])
def test_the_first_use_becomes_a_link_where_it_is_prose(content, wanted):
    assert linked(content) == (content if wanted is None else wanted)


def test_the_longest_word_wins_and_front_matter_says_the_words():
    assert linked("<p>tile map, tile</p>", {"tile": "tile", "hbm": "tile map"}).startswith('<p><a class="term" href="../glossary/#hbm"')
    assert linked("<p>tile</p>", {"tile": "brick"}) == "<p>tile</p>"


@pytest.mark.parametrize("words, complaint", [({"tiles": "tile"}, "no such entry"), ({"hbm": "HBM; tile"}, "belongs to #")])
def test_a_wrong_front_matter_is_an_error(words, complaint):
    with pytest.raises(PageError, match=complaint):
        linked("", words)


# The built pages, read by another parser.

CLOSED = {"code", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "th", "summary", "data", "button", "label", "math", "svg", "script", "style", "textarea", "caption"}
CLOSED_CLASSES = {"math", "admonition-title", "headlines", "provenance", "widget", "place", "notest", "filename", "report", "md-nav"}


class Prose(html.parser.HTMLParser):
    """(text, address of the link it stands in or None) of the running text of a page's article, in order."""

    def __init__(self, page):
        super().__init__()
        self.stack, self.pieces = [], []
        self.feed(re.search(r"<article.*?</article>", page, re.S)[0])

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in ("br", "img", "hr", "input", "col", "wbr"):
            self.stack.append((tag, tag in CLOSED or bool(CLOSED_CLASSES & set((attrs.get("class") or "").split())), attrs.get("href") if tag == "a" else None))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if not any(closed for _, closed, _ in self.stack):
            self.pieces.append((data, next((href for *_, href in self.stack if href), None)))


@functools.cache
def finder(word):
    flags = re.I if word[1:] == word[1:].lower() and word.isascii() else 0
    left, right = (r"(?<![A-Za-z0-9_./-])" if word[0].isascii() else ""), (r"(?:e?s)?(?![A-Za-z0-9_-])" if word[-1].isascii() else "")
    return re.compile(left + re.escape(word).replace(r"\ ", r"\s+") + right, flags)


def uses(text, entries):
    """Ids of the entries whose words stand in the text, in order; of overlapping words the longest."""
    found = []
    for entry in entries:
        for word in entry.words:
            found += [(m.start(), -m.end(), entry.id) for m in finder(word).finditer(text)]
    end, out = -1, []
    for start, stop, name in sorted(found):
        if start >= end:
            end = -stop
            out.append(name)
    return out


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_first_use_of_every_term_on_every_page_leads_to_its_entry(site, lang):
    wrong, ever = [], set()
    for name in NAMES:
        if name == "glossary.md":
            continue
        page = site / lang / ("" if name == "index.md" else name.removesuffix(".md")) / "index.html"
        seen = set()
        for text, href in Prose(page.read_text("utf-8")).pieces:
            anchor = re.search(r"glossary/#([\w-]+)$", href or "")
            if anchor:
                seen.add(anchor[1])
            elif not href:
                used = uses(text, ENTRIES[lang])
                wrong += [f"{lang}/{name}: {use} in '{text.strip()[:80]}'" for use in used if use not in seen]
                seen.update(used)
        ever |= seen
    assert not wrong, "\n".join(wrong)
    assert ever >= {entry.id for entry in ENTRIES[lang]}, f"no page uses {({entry.id for entry in ENTRIES[lang]}) - ever}: give it the word that the pages use, or drop it"


def test_links_of_the_glossary_lead_to_entries_by_id_and_both_languages_have_them():
    assert [entry.id for entry in ENTRIES["en"]] == [entry.id for entry in ENTRIES["zh"]]
    titles = re.findall(r"^## (.*?) \{", (TOP / "docs/en/glossary.md").read_text("utf-8"), re.M)
    assert titles == sorted(titles, key=str.casefold), "entries stand in the order of the English alphabet"
    for lang in LANGUAGES:
        assert all(5 < len(entry.short) < 260 for entry in ENTRIES[lang]), [entry for entry in ENTRIES[lang] if not 5 < len(entry.short) < 260]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_written_link_says_a_word_of_its_entry(lang):
    entries, said = {entry.id: entry for entry in ENTRIES[lang]}, []
    for name in NAMES:
        said += [(name, *found) for found in re.findall(r"\[([^\]\[]*)\]\(glossary\.md#([\w-]+)\)", "\n".join(prose(TOP / "docs" / lang / name)))]
    wrong = [f"{lang}/{name}: [{text}] leads to #{anchor}" for name, text, anchor in said
             if not any(word.lower() in text.lower() or text.lower().removesuffix("s") in word.lower() for word in entries[anchor].words) and (text, anchor) not in {("reserves", "allocator"), ("预留", "allocator")}]
    assert len(said) > 50 and not wrong, "\n".join(wrong)


# Terms without an entry. The net knows nothing of the glossary's words. The records of decisions are left out: they speak of tools, not of attention.

ART = [
    "accumulator", "autotuning", "bandwidth", "bank conflict", "block mask", "cache line", "continuous batching", "custom operator", "epilogue", "exponential unit", "latency",
    "machine epsilon", "multiprocessor", "occupancy", "prefix caching", "profiler", "quantisation", "register", "ring attention", "shared memory", "sliding window",
    "speculative decoding", "swizzle", "tensor core", "tensor memory", "tensor parallelism", "thread block", "throughput", "ulp", "working set",
]
EXEMPT = {  # why: words
    "a reader who knows Python and PyTorch knows them": """autograd; batch; boolean; bug; CPU; CUDA; default; docstring; dropout; dtype; except; exp; exp2; float32; forward; GPU; issue; JSON; ln; log;
        logits; loss; IO; None; profile; Python; PyTorch; README; return; self; shell; softmax; token; torch; traceback; True; wheel; mod; socket; stream; Transformer; out of memory""",
    "makers, cards, systems, programs": """Ada; AMD; Blackwell; GDDR6X; GPT; HBM3e; Hopper; Linux; Llama; NVIDIA; nvidia-smi; PCIe; InfiniBand; NDR; Megatron-LM; DeepSpeed-Ulysses; Striped; ROCm; RTX; vLLM; Windows; WSL; AutoDL; JupyterLab; flash-attn; flash-attention; GitHub""",
    "what this site is built with": "root; py; pull; request; pull request; JavaScript; Jupyter; notebook; Colab",
    "papers, people and their words": """Algorithm; arXiv; ACM; Communications; Dao; Dong; Fig; Gimelshein; Kwon; Milakov; NeurIPS; Abbeel; Liu; Zaharia; Patterson; Rabe; Saha; Shah; Staats;
        Waterman; Williams; Ye; Frobenius; Feeds; Speeds; RMSE""",
    "units": "GB; Gbit; GT; GFLOP; GiB; KiB; MFLOP; ms; PFLOP; TB; TFLOP",
    "the lesson's notation": "Br; Bc; dk; do; dp; dq; ds; dv; qk; rowsum; Sd",
    "names that a program or a table on the page prints": """flex; varlen; allocated; correction; d 320; efficient; enabled; flash; grouped; keys as given; k and v at work; largest first; layer; largest; first; output; part; parts;
        reduction; repeat; rows; scale; single; memory-efficient; reserved; requested and allocated bytes; FLASHINFER; TURBOQUANT; FlashAttentionImpl""",
    "explained in the sentence that uses it": "wavefront; all-to-all; block mask; sliding window; Accelerator; scores and probabilities",
    "what Colab's menus say": "File; Upload; Runtime; runtime; Change; type",
    "stress, no term": "so far; asked for; which numbers meet when; takes part; is padding",
    "English inside a Chinese page's quotation or name": "and; as; for; given; of; the; below",
}


def known(word, words):
    """Whether a word or one of its forms is among `words`; names with an underscore or a number are those of programs, cards and versions."""
    return bool({word, word.removesuffix("s"), word.removesuffix("es")} & words) or bool(re.search(r"_|\d", word))


def candidates(lang, name):
    """Words of a page that look technical: acronyms; in Chinese also Latin words, and what a bracket gives in English; emphasis of several words; terms of the art."""
    text = re.sub(r"(?s)\$\$.*?\$\$", "", "\n".join(line for line in prose(TOP / "docs" / lang / name) if not line.startswith("{{")))
    text = re.sub(r"(?m)^ *(?:!!!|\?\?\?\+?|===) \w+", "", text)
    text = re.sub(r"`[^`]*`|\$[^$\n]*\$|\{\{.*?\}\}|\{ ?[#.:][^}]*\}|\{\w+\}(?= \|)|\]\([^)]*\)|<[^>]*>|https?://\S+", " ¦ ", text)
    found = set(re.findall(r"(?<![\w-])[A-Za-z]*[A-Z][A-Z]+[A-Za-z]*(?![\w])", text))
    if lang == "zh":
        found |= set(re.findall(r"(?<![\w-])[A-Za-z][A-Za-z0-9_-]+", text, re.A))
        found |= {inner for inner in re.findall(r"（([A-Za-z][A-Za-z -]+)）", text) if " " in inner}
    else:
        found |= {inner for inner in re.findall(r"(?<!\*)\*([a-z-]+ [a-z -]+)\*(?!\*)", text)}
        found |= {word for word in ART if re.search(rf"\b{word}", text, re.I)}
    return found


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_term_is_used_without_an_entry(lang):
    words = {word.lower() for entries in ENTRIES.values() for entry in entries for word in entry.words}
    words |= {piece for word in words for piece in word.split() if piece.isascii()}
    words |= {word.strip().lower() for group in EXEMPT.values() for word in group.split(";")}
    wrong = {word: f"{lang}/{name}" for name in NAMES if name != "decisions.md" for word in candidates(lang, name) if not known(word.lower(), words)}
    assert not wrong, f"give each an entry in both glossaries, or exempt it with a reason: {wrong}"
