"""Small changes to rendered pages: file names become links, exempt code says why it is not run, and what a keyboard or a
screen reader needs: controls that are buttons with names, where the theme has bare labels of hidden check boxes."""
import html
import itertools
import re

from .errors import PageError

BLOCK = re.compile(r'<div class="([^"]*\bhighlight\b[^"]*)"([^>]*>(?:<span class="filename">(?:(?!<pre).)*</span>)?)<pre><span></span><code>', re.S)
NOTEST = re.compile(r'<div class="([^"]*highlight[^"]*)" data-notest="([^"]*)">')


def link_files(content, served, root):
    """Turn the title of a code block that is a served example's name into a link to the whole file."""
    def put(match):
        name = html.unescape(match[1])
        if name not in served:
            return match[0]
        return f'<span class="filename"><a href="{root}examples/{name}" download>{match[1]}</a></span>'

    return re.sub(r'<span class="filename">([^<]*)</span>', put, content)


def explain_exempt(content, words):
    """Write under a code block that tests do not run the reason that its `data-notest` gives."""
    parts, position = [], 0
    for match in NOTEST.finditer(content):
        end = content.index("</pre></div>", match.end()) + len("</pre></div>")
        parts += [content[position:end], f'<p class="notest">{words.page.notest}{match[2]}</p>']
        position = end
    return "".join(parts) + content[position:]


def tidy(content, words):
    """An empty corner of a table heads nothing; a section's link and a chart have names in words; an option's name is not broken behind its dashes."""
    content = re.sub(r"<th(?: [^>]*)?></th>", "<td></td>", content)
    content = re.sub(r'(<a class="headerlink" href="[^"]*") title="[^"]*"', rf'\1 title="{words.page.link}" aria-label="{words.page.link}"', content)
    content = re.sub(r'(<figure class="chart".*?<svg role="(?:img|group)" aria-label=")', rf"\1{words.page.chart}", content)
    return re.sub(r"<code>(--[a-z][a-z-]{,24})(?=[ <=])", r'<code><span class="option">\1</span>', content)


def code(page, words):
    """Blocks of code with fewer elements, and with the copy button that the theme would add by script when its code is near: here it is within reach of Tab.

    Names, punctuation, operators and blanks look like the code around them: a quarter of the lesson's elements in code remains.
    """
    number = itertools.count(1)

    def put(match):
        if "no-copy" in match[1].split():
            return match[0]
        name = f"code-{next(number)}"
        return (f'<div id="{name}" class="{match[1]}"{match[2]}<pre><nav class="md-code__nav" role="none"><button type="button" class="md-code__button" '
                f'title="{words.page.copy}" aria-label="{words.page.copy}" data-clipboard-target="#{name} code" data-md-type="copy"></button></nav><code>')

    return BLOCK.sub(put, re.sub(r'<span class="(?:[nopw]|ow)">([^<]*)</span>', r"\1", page))


def keep(page):
    """Code is no language that a browser translates (a formula says so itself, in tex.py)."""
    return re.sub(r"(<article\b.*</article>)", lambda article: re.sub(r"<(code|kbd)(?=[ >])", r'<\1 translate="no"', article[1]), page, count=1, flags=re.S)


def lighten(page):
    """Without what no browser reads: indents between tags, a name that HTML has for MathML anyway, what told the search to leave a piece out."""
    parts = re.split(r"(<(?:pre|textarea|script)\b.*?</(?:pre|textarea|script)>)", page, flags=re.S)
    parts[::2] = [re.sub(r' data-search-exclude(?=[ >])| xmlns="http://www.w3.org/1998/Math/MathML"', "", re.sub(r"\n\s+", "\n", part)) for part in parts[::2]]
    return "".join(parts)


def controls(page, words):
    """Give the theme's controls names, and make buttons of the labels that a keyboard cannot reach; js/site.js presses their check boxes."""

    def button(inner, **attributes):
        written = "".join(f' {name.replace("_", "-").strip("-")}="{value}"' for name, value in attributes.items())
        return f'<button type="button"{written}>{inner}</button>'

    def opener(match):
        name = words.page.menu if match[1] == "drawer" else words.page.search
        made = button(match[2], class_="md-header__button md-icon", data_toggle=f"__{match[1]}", aria_expanded="false", aria_label=name)
        return f"{made}<noscript>{match[0]}</noscript>"

    def scheme(match):
        made = button(match[5], class_="md-header__button md-icon", data_press=match[4], title=match[3], aria_label=match[3])
        return f'{match[1]} tabindex="-1" aria-hidden="true"{match[2]}{made.replace(">", " hidden>", 1)}'

    def back(match):
        return match[0] + button(match[1], class_="md-search__icon md-icon md-search__back", data_toggle="__search", aria_label=words.page.back)

    def head(match):
        return f'<div class="md-nav__title drawer-title">{match[1]}{button("×", class_="drawer-close", data_toggle="__drawer", aria_label=words.page.close)}</div>'

    for pattern, made, count in (
        (r'<label class="md-header__button md-icon" for="__(drawer|search)">(.*?)</label>', opener, 2),
        (r'(<input class="md-option"[^>]*?) +aria-label="[^"]*"([^>]*>\s*)<label class="md-header__button md-icon" title="([^"]*)" for="([^"]*)" hidden>(.*?)</label>', scheme, 2),
        (r'<label class="md-search__icon md-icon" for="__search">(?:(?!</label>).)*(<svg(?:(?!<svg).)*?</svg>)\s*</label>', back, 1),
        (r'<label class="md-nav__title" for="__drawer">(.*?)</label>', head, 1),
        (r'data-md-component="search" role="dialog"', lambda match: f'{match[0]} aria-label="{words.page.search}"', 1),
    ):
        page, found = re.subn(pattern, made, page, flags=re.S)
        if found != count:
            raise PageError(f"the theme's page has {found} controls like {pattern[:50]}…, not {count}: see docs/hooks/core/html.py.")
    # The current page's own sections, inside the drawer; a page without sections has none.
    for kind, state in (("md-nav__link md-nav__link--active", {"aria_expanded": "false"}), ("md-nav__title", {})):
        page = re.sub(rf'<label class="{kind}" for="__toc">(.*?)</label>', lambda m: button(m[1], class_=kind, data_toggle="__toc", **state), page, count=1, flags=re.S)
    return page
