"""The content-security policy: on every page, before anything that loads; what the site does runs under it, what a stranger puts in does not."""
import re

import pytest
from core import policy
from core.errors import PageError
from support import LANGUAGES, TOP

PAGE = '<!doctype html><html><head>\n<meta charset="utf-8"><title>t</title>{}</head><body></body></html>'
META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
THEME = ("__md_scope=", 'var palette=__md_get("__palette")', "var target=document.getElementById(location.hash.slice(1))")   # the inline scripts of Material 9.8.2


def test_each_inline_script_of_a_page_is_allowed_by_its_hash_and_data_is_not():
    # sha256 of "alert(1)", by openssl dgst -sha256 -binary | base64
    made = policy.put(PAGE.format('<script>alert(1)</script><script type="application/json">{}</script><script src="x.js"></script><style>a{}</style>'))
    assert made.count("Content-Security-Policy") == 1 and made.index("Content-Security-Policy") < made.index("<title>")
    said = META.search(made)[1]
    assert "script-src 'self' 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=';" in said
    assert re.search(r"style-src-elem 'self' 'sha256-[\w+/]{43}=';", said)
    assert "'unsafe-inline'" not in said.replace("style-src 'self' 'unsafe-inline'", "") and "unsafe-eval" not in said and "default-src 'none'" in said
    assert "sha256" not in policy.policy(PAGE.format('<script type="application/ld+json">{}</script>'))
    assert policy.policy("<script>a\r\nb</script>") == policy.policy("<script>a\nb</script>"), "a browser makes line ends LF before it takes the hash"


@pytest.mark.parametrize("page", ["<head><script>x</script><meta charset='utf-8'></head>", "<head><link rel=stylesheet><meta charset=utf-8>", "<head></head>"])
def test_a_page_that_loads_before_its_charset_is_refused(page):
    with pytest.raises(PageError, match="no <meta charset> before its first script"):
        policy.put(page)


@pytest.mark.parametrize("content, complaint", [
    ("<script>go()</script>", "a script written into the page .*'go\\(\\)'.* put it in a file of docs/theme/js"),
    ('<SCRIPT type="module" data-a=">">import "./x.js"</SCRIPT >', "a script written into the page"),
    ('<script data-type="json">go()</script>', "a script written into the page"),
    ("<svg><script>go()</script></svg>", "a script written into the page"),
    ('<p id="a" onclick="go()">', "the attribute onclick"),
    ("<img src=x.png onerror=go()>", "the attribute onerror"),
    ('<a href=" javascript:go()">', "a javascript: address"),
    ('<script src="https://code.example/x.js"></script>', "<script> is refused"),
    ('<script async src="//code.example/x.js"></script>', "<script> is refused"),
    ('<iframe src="x.html"></iframe>', "<iframe> is refused"),
])
def test_what_a_page_may_not_contain_is_named(content, complaint):
    with pytest.raises(PageError, match=complaint) as error:
        policy.refuse(f"<p>text</p>{content}", f"text\n\n{content}\n")
    assert error.value.line == 3


def test_what_a_page_may_contain_passes():
    policy.refuse('<p title="set onclick=x, a <script>">&lt;script&gt;go()&lt;/script&gt;</p><script type="application/json">{"a": "<p onclick=x>"}</script>'
                  '<textarea><script>go()</script></textarea><!-- <script>go()</script> -->''<span style="height: 1em"></span><script type="module" src="../js/x.js"></script><style>a{}</style><a href="https://other.example">on it = yes</a>')


@pytest.mark.parametrize("name, old, new, complaint", [
    ("docs/zh/glossary.md", "\n## ", "\n<script>document.title = 'x'</script>\n\n## ", r"docs/zh/glossary.md:\d+: a script written into the page"),
    ("docs/root/index.md", "<a ", '<a onclick="go()" ', r"docs/root/index.md:\d+: the attribute onclick"),
    ("docs/theme/main.html", "{{ super() }}", "{{ super() }}<script>go()</script>", r"docs/theme/main.html:\d+: a script written into the page"),
])
def test_a_script_in_a_page_or_in_a_template_of_ours_stops_the_build(tree, name, old, new, complaint):
    tree.edit(name, old, new)
    run = tree.build()
    assert run.returncode != 0 and re.search(complaint, run.stdout), run.stdout


def test_every_page_has_one_policy_and_only_the_theme_writes_scripts_into_it(site):
    pages = sorted(site.rglob("*.html"))
    assert {"index.html", "404.html", "en/404.html", "en/index.html", "zh/lesson/index.html"} <= {path.relative_to(site).as_posix() for path in pages}
    for path in pages:
        page = path.read_text("utf-8")
        assert len(META.findall(page)) == 1 == page.count('http-equiv="Content-Security-Policy"'), path
        loads = re.search(r"<(?:script|style|link|body)\b", page)
        assert META.search(page).start() < loads.start() and page.index("charset=") < 1024, path
        inline = [text for kind, _, text in policy.inline(page) if kind == "script"]
        assert all(text.strip().startswith(THEME) for text in inline), f"{path}: {[text[:80] for text in inline]}"
        assert META.search(page)[1].split(";")[1].count("sha256") == len(set(inline)), path


# In a real browser.

WATCH = "window.refused = []; addEventListener('securitypolicyviolation', (event) => window.refused.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`))"


@pytest.fixture
def page(chromium):
    context = chromium.new_context()
    context.add_init_script(WATCH)
    page = context.new_page()
    page.said = []
    page.on("console", lambda m: m.type in ("error", "warning") and page.said.append(m.text))
    page.on("pageerror", lambda e: page.said.append(str(e)))
    yield page
    context.close()


def test_no_page_breaks_its_policy(page, site, served):
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        page.goto(served + name.removesuffix("index.html"), wait_until="load")
        if name == "index.html":   # goes on to a language
            page.wait_for_url(f"{served}en/")
        missing = [said for said in page.said if name.endswith("404.html") and said.startswith("Failed to load resource")]   # its addresses are those of SITE_URL
        assert page.evaluate("window.refused") == [] == [said for said in page.said if said not in missing], name
        page.said.clear()
    # Open what is closed: a search in the worker, its form sent, another scheme, a menu.
    for lang, query in zip(LANGUAGES, ("softmax", "显存")):
        page.goto(f"{served}{lang}/lesson/", wait_until="networkidle")
        page.fill(".md-search__input", query)
        page.locator(".md-search-result__link").first.wait_for(timeout=20_000)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"\?h="))   # the first hit, its words marked
        page.wait_for_load_state("networkidle")
        page.goto(f"{served}{lang}/lesson/", wait_until="networkidle")
        page.locator("button[data-press]:not([hidden])").click()
        page.locator("details summary").first.click()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_timeout(300)
        assert page.evaluate("window.refused") == [] == page.said, lang


ATTACKS = {   # what a page that a stranger wrote into would do; each leaves its name in window.done
    "script": ("script-src-elem", "const s = document.createElement('script'); s.textContent = 'done.push(`script`)'; document.body.append(s)"),
    "handler": ("script-src-attr", "const b = document.createElement('button'); b.setAttribute('onclick', 'done.push(`handler`)'); document.body.append(b); b.click()"),
    "eval": ("script-src", "setTimeout('done.push(`eval`)')"),
    "address": ("script-src-elem", "const a = document.createElement('a'); a.href = 'javascript:done.push(`address`)'; document.body.append(a); a.click()"),
    "data": ("script-src-elem", "const s = document.createElement('script'); s.src = 'data:text/javascript,done.push(`data`)'; document.body.append(s)"),
    "foreign script": ("script-src-elem", "const s = document.createElement('script'); s.src = 'http://other.example/x.js'; document.body.append(s)"),
    "foreign image": ("img-src", "const i = new Image(); i.src = 'http://other.example/x.png'; i.onload = () => done.push('foreign image'); document.body.append(i)"),
    "foreign style": ("style-src-elem", "const l = document.createElement('link'); l.rel = 'stylesheet'; l.href = 'http://other.example/x.css'; l.onload = () => done.push('foreign style'); document.head.append(l)"),
    "style": ("style-src-elem", "const s = document.createElement('style'); s.textContent = 'body { --x: 1 }'; document.head.append(s); getComputedStyle(document.body).getPropertyValue('--x') && done.push('style')"),
    "foreign data": ("connect-src", "fetch('http://other.example/x.json').then(() => done.push('foreign data'), () => {})"),
    "foreign frame": ("frame-src", "const f = document.createElement('iframe'); f.src = 'http://other.example/x.html'; document.body.append(f)"),
    "worker": ("worker-src", "new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = () => done.push('worker')"),
    "base": ("base-uri", "const b = document.createElement('base'); b.href = 'http://other.example/'; document.head.prepend(b); if (document.baseURI.includes('other')) { done.push('base'); b.remove() }"),
    "form": ("form-action", "const f = document.createElement('form'); f.action = 'http://other.example/x.html'; f.target = 'form'; document.body.append(f); f.submit()"),
}
ANSWERS = {"x.js": ("text/javascript", "done.push('foreign script')"), "x.css": ("text/css", ""), "x.json": ("application/json", "{}"), "x.html": ("text/html", "<p>here"),
           "x.png": ("image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>')}


def attacked(page, address, without):
    """{attack: directive that refused it or None}, and what came through, on the page as it is or without its policy."""
    asked = []

    def other(route):
        name = route.request.url.rsplit("/", 1)[1].split("?")[0]
        asked.append(name)
        kind, body = ANSWERS[name]
        route.fulfill(content_type=kind, body=body, headers={"access-control-allow-origin": "*"})

    page.context.route("http://other.example/**", other)
    if without:
        page.route(address, lambda route: route.fulfill(body=META.sub("", route.fetch().text()), content_type="text/html"))
    page.goto(address, wait_until="load")
    page.evaluate("window.done = []")
    refused = {}
    for name, (_, attack) in ATTACKS.items():
        before, count = page.evaluate("window.refused.length"), len(asked)
        page.evaluate(f"() => {{ {attack} }}")
        page.wait_for_timeout(150)
        refused[name] = page.evaluate("window.refused")[before:]
        if name in ("form", "foreign frame") and len(asked) > count:
            page.evaluate("name => done.push(name)", name)
    return refused, page.evaluate("window.done"), asked


@pytest.mark.parametrize("path", ["en/glossary/", "zh/lesson/"])
def test_what_a_stranger_writes_into_a_page_is_refused(page, served, path):
    refused, done, asked = attacked(page, served + path, without=False)
    for name, (directive, _) in ATTACKS.items():
        assert any(said.split()[0] == directive for said in refused[name]), f"{name}: {refused[name]}"
    assert done == [] and asked == []


def test_without_the_policy_all_of_it_comes_through(page, served):
    """So that the test above cannot be green for another reason."""
    refused, done, asked = attacked(page, served + "en/glossary/", without=True)
    assert set(done) == set(ATTACKS) and set(asked) == set(ANSWERS) and not any(refused.values()), (sorted(set(ATTACKS) - set(done)), asked, refused)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_opened_as_a_file_a_page_keeps_its_styles_and_pictures(page, site, lang):
    page.goto((site / lang / "index.html").as_uri(), wait_until="load")
    assert [said for said in page.evaluate("window.refused") if not said.startswith(("script-src", "worker-src", "connect-src"))] == []
    assert page.evaluate("getComputedStyle(document.querySelector('.md-header')).position") == "sticky", "the theme's stylesheet is there"
