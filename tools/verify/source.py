"""Read the Python source of a release without importing it.

A finder is a function from a `Tree` to a `Found`: where something stands and what it is, as a value that JSON can
hold. It raises `Missing` when what it looks for is not there. `names` are dotted: "FlashAttentionImpl.forward".
Most finders compare syntax trees, so that line breaks, comments and quotes do not matter. `evaluated` goes further:
it compiles single functions of the file in a name space of stand-ins and calls them. That is not a sandbox; it is
meant for the source of a release that one would install anyway.
"""
import __future__
import ast
import builtins
import re
import tarfile
from typing import Any, NamedTuple

KEPT = re.compile(r"vllm/.*\.py|requirements/cuda\.txt|cmake/external_projects/vllm_flash_attn\.cmake")


class Missing(Exception):
    """What a finder looks for is not in the tree; the message says what and where."""


class Found(NamedTuple):
    file: str
    line: int | None
    value: Any


class Tree:
    """The text of a release's files by their path in the archive."""

    def __init__(self, files):
        self.files, self.parsed = files, {}

    @classmethod
    def from_archive(cls, path):
        """The files of a source archive (.tar.gz) that statements can be about; nothing is written to disk."""
        files = {}
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if member.isfile() and KEPT.fullmatch(name):
                    files[name] = archive.extractfile(member).read().decode("utf-8")
        return cls(files)

    def text(self, path):
        if path not in self.files:
            raise Missing(f"there is no {path}")
        return self.files[path]

    def module(self, path):
        if path not in self.parsed:
            try:
                self.parsed[path] = ast.parse(self.text(path))
            except SyntaxError as error:
                raise Missing(f"this Python cannot parse {path}: {error}") from None
        return self.parsed[path]

    def node(self, path, name):
        """The definition or assignment behind a dotted name; the module itself for ''."""
        node = self.module(path)
        for part in filter(None, name.split(".")):
            node = next((child for child in _level(node) if part in _bound(child)), None)
            if node is None:
                raise Missing(f"{path} has no {name}")
        return node


def _level(node):
    """The statements of a body, those under `if` and `try` included, those of inner definitions not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
            if isinstance(child, (ast.If, ast.Try, ast.With)):
                yield from _level(child)
        elif isinstance(child, ast.ExceptHandler):
            yield from _level(child)


def _bound(node):
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


# Finders.


def value(path, name):
    """What a name is assigned: the literal, or the source of another expression."""
    def find(tree):
        node = tree.node(path, name)
        if getattr(node, "value", None) is None:
            raise Missing(f"{path} assigns nothing to {name}")
        return Found(path, node.lineno, _literal(node.value))
    return find


def annotation(path, name):
    """The type that a field declares."""
    def find(tree):
        node = tree.node(path, name)
        if not isinstance(node, ast.AnnAssign):
            raise Missing(f"{path} declares no type for {name}")
        return Found(path, node.lineno, ast.unparse(node.annotation))
    return find


def fields(path, name, *wanted):
    """Those of the wanted fields that a class declares, in the class's order."""
    def find(tree):
        node = tree.node(path, name)
        return Found(path, node.lineno, [field for child in node.body for field in _bound(child) if field in wanted])
    return find


def arguments(path, name):
    """The parameters of a function, without `self`, each with its default."""
    def find(tree):
        node = tree.node(path, name)
        spec = node.args
        plain = spec.posonlyargs + spec.args
        defaults = [None] * (len(plain) - len(spec.defaults)) + spec.defaults
        pairs = list(zip(plain, defaults)) + list(zip(spec.kwonlyargs, spec.kw_defaults))
        given = [arg.arg + (f"={ast.unparse(default)}" if default else "") for arg, default in pairs if arg.arg not in ("self", "cls")]
        return Found(path, node.lineno, given)
    return find


def overlap(path, name, *words):
    """Those of the words that are parameters of a function."""
    def find(tree):
        found = arguments(path, name)(tree)
        return found._replace(value=[word for word in words if word in {given.partition("=")[0] for given in found.value}])
    return find


def returns(path, name):
    """The expressions that a function returns, in order."""
    def find(tree):
        found = sorted((n.lineno, ast.unparse(n.value)) for n in ast.walk(tree.node(path, name)) if isinstance(n, ast.Return) and n.value)
        if not found:
            raise Missing(f"{name} in {path} returns nothing")
        return Found(path, found[0][0], [text for _, text in found])
    return find


def code(path, name, *texts):
    """Each text, a statement or an expression, stands in the definition, each on a later line than the one before."""
    def find(tree):
        root, lines = tree.node(path, name), [0]
        for text in texts:
            wanted = ast.parse(text).body[0]
            wanted = _shape(wanted.value if isinstance(wanted, ast.Expr) else wanted)
            places = sorted(n.lineno for n in ast.walk(root) if getattr(n, "lineno", 0) > lines[-1] and _shape(n) == wanted)
            if not places:
                after = f" after line {lines[-1]}" if lines[-1] else ""
                raise Missing(f"{name or 'the module'} in {path} does not hold `{text}`{after}")
            lines.append(places[0])
        return Found(path, lines[1], list(texts))
    find.expect = list(texts)
    return find


def flags(path, name, first):
    """All option strings of the `add_argument` call that begins with one of them."""
    def find(tree):
        for node in ast.walk(tree.node(path, name)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_argument"):
                options = [a.value for a in node.args if isinstance(a, ast.Constant)]
                if options[:1] == [first]:
                    return Found(path, node.args[0].lineno, options)
        raise Missing(f"{name} in {path} adds no argument {first}")
    return find


def call(path, name, marker, *only):
    """The keyword arguments of the one call in a definition that has the keyword `marker`: {name: source}, or `only` some."""
    def find(tree):
        node = _marked(tree, path, name, marker)
        given = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
        return Found(path, node.lineno, {k: given[k] for k in only if k in given} if only else list(given))
    return find


def callee(path, name, marker):
    """The function that the one call with the keyword `marker` calls."""
    def find(tree):
        node = _marked(tree, path, name, marker)
        return Found(path, node.lineno, ast.unparse(node.func))
    return find


def raises(path, name, message, condition=""):
    """The exception whose text contains `message`, and the conditions around it (the last of which is `condition`)."""
    def find(tree):
        for around, node in _raised(tree.node(path, name)):
            text = "".join(n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))
            if message in text and isinstance(node.exc, ast.Call) and condition in ("", *around[-1:]):
                return Found(path, node.lineno, {"when": around, "raises": ast.unparse(node.exc.func)})
        raise Missing(f"{name} in {path} raises nothing that says '{message}'")
    return find


def branches(path, name, variable, passes):
    """What each branch `if variable == n` calls with the argument `passes`: {n: function}."""
    def find(tree):
        found, lines = {}, []
        for node in ast.walk(tree.node(path, name)):
            test = node.test if isinstance(node, ast.If) else None
            if isinstance(test, ast.Compare) and ast.unparse(test.left) == variable and isinstance(test.ops[0], ast.Eq):
                for made in (n for child in node.body for n in ast.walk(child) if isinstance(n, ast.Call)):
                    if passes in [ast.unparse(a) for a in made.args + [k.value for k in made.keywords]]:
                        found[ast.unparse(test.comparators[0])] = ast.unparse(made.func)
                        lines.append(made.lineno)
        if not found:
            raise Missing(f"{name} in {path} has no branch on {variable} that passes {passes}")
        return Found(path, min(lines), dict(sorted(found.items())))
    return find


def documented(path, name, sentence):
    """The docstring of a definition contains the sentence."""
    def find(tree):
        node = tree.node(path, name)
        doc = " ".join((ast.get_docstring(node) or "").split())
        if sentence not in doc:
            raise Missing(f"the docstring of {name} in {path} does not say '{sentence}'")
        first = next((n for n, line in enumerate(tree.text(path).splitlines(), 1) if n >= node.lineno and sentence[:24] in line), node.lineno)
        return Found(path, first, sentence)
    find.expect = sentence
    return find


def files_with(word, under="vllm/"):
    """The Python files that contain a word."""
    def find(tree):
        if not any(path.startswith(under) for path in tree.files):
            raise Missing(f"there is no {under}")
        return Found(under, None, sorted(path for path, text in tree.files.items() if path.startswith(under) and word in text))
    return find


def text(path, pattern):
    """What the pattern's first group matches in a file, whatever its language."""
    def find(tree):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if match := re.search(pattern, line):
                return Found(path, number, match[1])
        raise Missing(f"no line of {path} matches {pattern}")
    return find


def every(*finders):
    """What several finders find, at the place of the first."""
    def find(tree):
        found = [finder(tree) for finder in finders]
        return found[0]._replace(value=[f.value for f in found])
    return find


def evaluated(path, name, question, at=None):
    """The answer of `question(tree)`, which calls functions of the release; `path` and `name`, or a finder, say where it stands."""
    def find(tree):
        line = at(tree).line if at else tree.node(path, name).lineno
        try:
            return Found(path, line, question(tree))
        except Missing:
            raise
        except Exception as error:  # an unknown name or argument: the function is no longer the one that was read
            raise Missing(f"{name} in {path} could not be evaluated: {type(error).__name__}: {error}") from None
    return find


def load(tree, path, names=(), **stand_ins):
    """Compile definitions of a file where only `stand_ins` and a few builtins exist; returns the name space.

    names: dotted names, bound without their class; all functions and literal constants of the module if empty.
    An import inside a function gets the stand-in of that name, or fails as an import would.
    """
    nodes = [tree.node(path, name) for name in names] or [
        n for n in tree.module(path).body if isinstance(n, ast.FunctionDef) or isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)]
    space = {"__builtins__": {**{name: getattr(builtins, name) for name in _BUILTINS}, "__import__": _importer(stand_ins)}, **stand_ins}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            node = ast.FunctionDef(**{**dict(ast.iter_fields(node)), "decorator_list": []}, lineno=node.lineno, col_offset=0)
        if not set(_bound(node)) & set(stand_ins):
            exec(compile(ast.Module([node], []), path, "exec", __future__.annotations.compiler_flag), space)
    return space


def evaluate(tree, path, name, marker, space):
    """The value of the one call in a definition whose function is called `marker`, its arguments taken from `space`."""
    for node in ast.walk(tree.node(path, name)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == marker:
            return eval(compile(ast.Expression(node), path, "eval"), {"__builtins__": {n: getattr(builtins, n) for n in _BUILTINS}, **space})
    raise Missing(f"{name} in {path} does not call {marker}")


_BUILTINS = ("AssertionError Exception ImportError KeyError NotImplementedError OSError ValueError TypeError all any bool dict enumerate "
             "float getattr int isinstance len list max min range repr set str sum tuple type zip").split()


def _importer(stand_ins):
    class Module:
        def __getattr__(self, name):
            if name in stand_ins:
                return stand_ins[name]
            raise AttributeError(name)

    def stand_in(name, globals=None, locals=None, names=(), level=0):
        if missing := [n for n in names or [name] if n not in stand_ins]:
            raise ImportError(f"no stand-in for {missing[0]} of {name}")
        return Module()

    return stand_in


def _literal(node):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _shape(node):
    return ast.dump(node) if isinstance(node, (ast.stmt, ast.expr)) else None


def _marked(tree, path, name, marker):
    found = [n for n in ast.walk(tree.node(path, name)) if isinstance(n, ast.Call) and marker in [k.arg for k in n.keywords]]
    if len(found) != 1:
        raise Missing(f"{len(found)} calls in {name} of {path} have the keyword {marker}, not one")
    return found[0]


def _raised(node, around=()):
    """Each `raise` under a node, with the conditions that lead to it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise):
            yield list(around), child
        elif isinstance(child, ast.If):
            condition = ast.unparse(child.test)
            for inner in child.body:
                yield from _raised(ast.Module([inner], []), (*around, condition))
            for inner in child.orelse:
                yield from _raised(ast.Module([inner], []), (*around, f"not ({condition})"))
        elif isinstance(child, ast.ExceptHandler):
            yield from _raised(child, (*around, f"except {ast.unparse(child.type)}" if child.type else "except"))
        else:
            yield from _raised(child, around)
