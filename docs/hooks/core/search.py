"""Words that readers search for and a page does not say, from its front matter into its entries of the search index; and a fault of the theme's search mended."""
import re

from .errors import PageError

WORKER = re.compile(r"assets/javascripts/workers/search\.\w+\.min\.js")
NODE = re.compile(r"(\w)=\1\+(\w)\+(\w)\.id(?=\})")


def mend(worker):
    """The theme's search worker, in which Lunr takes two nodes of its index for one: it names a node by its letters and their numbers with nothing between,
    so that the letter 1 with node 23 is the letter 1, node 2, the letter 3. It then looks for a number that nobody wrote, and finds nothing at all."""
    made, found = NODE.subn(r'\1=\1+\2+\3.id+","', worker)
    if found != 1:
        raise PageError(f"the theme's search names its nodes in {found} places, not in one: see docs/hooks/core/search.py.")
    return made


def add_synonyms(entries, synonyms, url, first):
    """Give each entry of a page its synonyms; `first` is the id of the page's first heading, whose entry is the page itself.

    `synonyms` maps heading ids to words with blanks between them. The theme's search indexes every field that its settings
    name and shows titles and texts alone, so a reader finds by these words and does not see them.
    """
    if not isinstance(synonyms, dict) or not all(isinstance(said, str) and said.split() for said in synonyms.values()):
        raise PageError(f"synonyms in the front matter map ids of headings to words, not {synonyms!r}. Write `synonyms:` and below it `  some-id: word word`.")
    places = {entry["location"]: entry for entry in entries}
    for name, said in synonyms.items():
        entry = places.get(url if name == first else f"{url}#{name}")
        if entry is None:
            raise PageError(f"synonyms in the front matter name {name!r}, which is no heading of this page. Use the id of a heading.")
        entry["synonyms"] = said
