"""Snippet sections without markers: every top-level definition of an example is a section of that name.

Example files are served and copied byte for byte, so they hold no `--8<--` comments. The build reads copies with markers.
"""
import ast
import re


def mark(source):
    """Return `source` with snippet markers around each top-level def, class and simple assignment.

    A section is named by the definition's lower-cased name and reaches from its first decorator or the comment block
    that touches it to its last line.
    """
    lines = source.splitlines()
    before, after = {}, {}
    for node in ast.parse(source).body:
        name = _name(node)
        if name is None:
            continue
        first = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
        while first > 1 and lines[first - 2].startswith("#") and not lines[first - 2].startswith("#!"):
            first -= 1
        before.setdefault(first, []).append(name)
        after.setdefault(node.end_lineno, []).append(name)
    out = []
    for number, line in enumerate(lines, 1):
        out += [f"# --8<-- [start:{name}]" for name in before.get(number, [])]
        out.append(line)
        out += [f"# --8<-- [end:{name}]" for name in after.get(number, [])]
    return "\n".join(out) + "\n"


def names(source):
    """The section names of an example, in order."""
    return [name for node in ast.parse(source).body if (name := _name(node))]


def _name(node):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return _slug(node.name)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return _slug(node.targets[0].id)
    return None


def _slug(name):
    slug = name.lower()
    return slug if re.fullmatch(r"[a-z][-_0-9a-z]*", slug) else None
