"""YAML in which a key that stands twice is an error, where PyYAML would silently take the last."""
from .errors import PageError


class Once:
    """In front of one of PyYAML's loaders."""

    def construct_mapping(self, node, deep=False):
        seen = []
        for mark, key in [(key.start_mark, self.construct_object(key, deep=True)) for key, _ in node.value]:
            if key in seen:
                raise PageError(f"'{key}' stands twice", mark.line + 1)
            seen.append(key)
        return super().construct_mapping(node, deep)


def once(loader):
    """The loader class with that check."""
    made = type("Loader", (Once, loader), {})
    made.add_constructor("tag:yaml.org,2002:map", lambda reader, node: reader.construct_mapping(node, True))
    return made
