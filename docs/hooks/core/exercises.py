"""Exercises as the site serves them: of each folder of examples/exercises the solution, its skeleton and one grader that runs alone.

Pure. A grader is put together by syntax tree from the exercise's properties, what they use of common.py, the engine grader.py and the
words; an exercise that defines a name of the other two (`call`, `written`) means its own.
"""
import ast
import pprint
import re

ANSWER = re.compile(r"^( *)# answer\n(.*?)^ *# end of answer\n", re.S | re.M)
ENGINE = "\n\n# From here on every grader is the same: how a property is tried, what is said, the command line.\n\n"
SOURCES = ("common", "grader")                  # modules that properties import and a served grader holds


def served(folder, languages):
    """{name below examples/: text}, for the folder examples/exercises. languages: {language: what graders say}, docs/words under graders:."""
    common, engine = ((folder / f"{name}.py").read_text("utf-8") for name in SOURCES)
    files = {}
    for path in sorted(folder.glob("*/solution.py")):
        name, solution = path.parent.name, path.read_bytes().decode("utf-8")
        files |= {f"exercises/{name}.py": solution, f"exercises/{name}_skeleton.py": skeleton(solution)}
        files[f"exercises/grade_{name}.py"] = grader(name, path.with_name("properties.py").read_text("utf-8"), common, engine, languages)
    return files


def asked(folder, said):
    """{name of a word: the file that asks for it}, as core/words.py gives it. said: what graders say in one language."""
    engine = (folder / "grader.py").read_text("utf-8")
    found = {f"graders.engine.{key}": "examples/exercises/grader.py" for key in re.findall(r"""(?:\bwords|\bWORDS\[\w+\])\[["'](\w+)["']\]""", engine)}
    for path in sorted(folder.glob("*/properties.py")):
        for one in _tried(definitions(path.read_text("utf-8"))):
            where = path.parent.name if one in said.get(path.parent.name, {}) else "any"
            found |= {f"graders.{where}.{one}.{key}": f"examples/exercises/{path.parent.name}/properties.py" for key in ("title", "hint")}
    return found


def skeleton(solution):
    """The solution without what stands between `# answer` and `# end of answer`."""
    return ANSWER.sub(r"\1raise NotImplementedError  # your code instead of this line\n", solution)


def answer(solution):
    """The lines that a skeleton lacks."""
    return [line.split("#")[0].strip() for match in ANSWER.finditer(solution) for line in match[2].splitlines()]


def grader(name, properties, common, engine, languages):
    """One file: what the properties are, then the engine."""
    own, shared, end = map(definitions, (properties, common, engine))
    mine = {defined for part in own for defined in part.names}
    end = [part for part in end if not mine & part.names]
    used, kept = set().union(*(part.uses for part in own + end)), []
    while more := [part for part in shared if part not in kept and part.names & used and not part.names & mine]:
        kept += more
        used = used.union(*(part.uses for part in more))
    last = next(part for part in own if "PROPERTIES" in part.names)
    texts = {one: {lang: _text(said, name, one) for lang, said in languages.items()} for one in _tried(own)}
    first = [part.text for part in own if part is not last] + [part.text for part in shared if part in kept]
    return (
        ast.get_docstring(ast.parse(engine), clean=False).replace("{name}", name).join(['"""', '"""\n\n'])
        + imports([properties, common, engine], used) + f'\nNAME = "{name}"\n\n\n'
        + "\n\n\n".join([*first, last.text]) + f"\nTEXTS = {_literal(texts)}" + ENGINE
        + f"WORDS = {_literal({lang: said['engine'] for lang, said in languages.items()})}\n\n\n" + "\n\n\n".join(part.text for part in end) + "\n"
    )


class Part:
    """A top-level statement with the comment above it: its text, the names it defines and those it uses."""

    def __init__(self, node, lines):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        self.node, self.text = node, "\n".join(lines[first - 1 : node.end_lineno])
        self.names = {node.name} if hasattr(node, "name") else {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.uses = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def definitions(source):
    """What a module holds beside its docstring and its imports."""
    lines = source.splitlines()
    body = [node for node in ast.parse(source).body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    return [Part(node, lines) for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]


def imports(sources, used):
    """One block of the imports of all, without what is not used or is in the file itself."""
    plain, names = set(), {}
    for node in (node for source in sources for node in ast.parse(source).body):
        if isinstance(node, ast.Import):
            plain |= {alias.name for alias in node.names if alias.name in used}
        elif isinstance(node, ast.ImportFrom) and node.module not in SOURCES:
            names.setdefault(node.module, set()).update(alias.name for alias in node.names if alias.name in used)
    lines = [f"import {name}\n" for name in sorted(plain)] + [f"from {module} import {', '.join(sorted(names[module]))}\n" for module in sorted(names) if names[module]]
    return "".join(lines)


def _tried(parts):
    """The names of the properties that an exercise tries."""
    return [one.id for part in parts if "PROPERTIES" in part.names for one in part.node.value.elts]


def _text(said, name, one):
    """Title and hint of a property: the exercise's own, or what several share."""
    found = said.get(name, {}).get(one) or said["any"][one]
    return found["title"], found["hint"]


def _literal(data):
    return pprint.pformat(data, width=170, sort_dicts=False)
