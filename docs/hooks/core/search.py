"""Words that readers search for and a page does not say, from its front matter into its entries of the search index."""
from .errors import PageError


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
