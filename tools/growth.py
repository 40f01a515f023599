"""How a strict build grows with the site: processor seconds of a warm build with 0, 10, … generated pages, half of them in each language. `make growth` runs this.

python tools/growth.py [PAGES…]

Processor time of the build and of the Node process that it starts, not the clock: a busy machine does not change what is printed by much.
"""
import pathlib
import re
import resource
import shutil
import sys
import tempfile

from tree import LANGUAGES, copied

PAGE = """---
description: Generated page {n}.
---
# Page {n} {{ #page-{n} }}

FlashAttention of page {n} keeps a tile of queries and walks over the keys, see [the lesson](../lesson.md). At $S = {n}$ the matrix has $S^2 = {square}$ scores:

$$
m_{{{n}}} = \\max(m, \\max_j s_j), \\qquad \\ell_{{{n}}} = e^{{m - m_{{{n}}}}} \\ell + \\sum_j e^{{s_j - m_{{{n}}}}}
$$

## Code {{ #code-{n} }}

```python
def scores_{n}(q, K):
    return [sum(a * b for a, b in zip(q, k)) * {n} for k in K]
```

## Numbers {{ #numbers-{n} }}

| S | MiB, naive | MiB, flash |
|---|---|---|
{{{{ flash_vs_naive_memory.rows[part=grid, kv_heads=28, causal=false]: S naive_mib flash_mib }}}}

At S = 4096 naive attention takes {{{{ flash_vs_naive_memory.naive_mib[part=grid, S=4096, kv_heads=28, causal=false] }}}} MiB.
"""


def seconds(grown, pages):
    """Processor seconds of a strict, warm build of a tree with that many generated pages."""
    for lang in LANGUAGES:
        folder = grown.top / "docs" / lang / "grown"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for n in range(pages // len(LANGUAGES)):
            (folder / f"{n}.md").write_text(PAGE.format(n=n, square=n * n), "utf-8")
        nav = "\nnav:" + "".join(f"\n  - grown/{n}.md" for n in range(pages // len(LANGUAGES)))
        config = grown.path(f"mkdocs.{lang}.yml")
        config.write_text(re.sub(r"\n  - grown/\d+\.md", "", config.read_text("utf-8")).replace("\nnav:", nav, 1), "utf-8")
    shutil.rmtree(grown.out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = grown.build(timeout=1800)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        sys.exit(run.stdout)
    made = sum(1 for _ in grown.out.glob("*/grown/*/index.html"))
    assert made == pages, f"{made} generated pages were built, not {pages}"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(sizes):
    with tempfile.TemporaryDirectory() as folder:
        grown = copied(pathlib.Path(folder) / "tree")
        seconds(grown, 0)   # fills the cache of rendered notebooks
        print("pages   CPU s   CPU ms a page")
        empty = seconds(grown, 0)
        print(f"{0:>5}{empty:>8.1f}", flush=True)
        for pages in sizes:
            took = seconds(grown, pages)
            print(f"{pages:>5}{took:>8.1f}{(took - empty) / pages * 1000:>10.0f}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [10, 60, 500])
