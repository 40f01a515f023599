"""The identity: which code a measurement was made with.

identity() is a hash of `check`, `measure` and of all that they reach: functions, classes with their methods, constants,
defaults, decorators, of the file itself and of what it imports from beside it. It is the same for a source and for the single
file made of it, and on every Python from 3.11 on. A program that loads others by name, from a folder beside it, says which
in its constant FOLDER: what it may call of each counts too. Not in it: comments, docstrings, where a definition stands, what is
printed, and the names of all that is defined in a module, so that a function may be renamed. No measuring code may therefore
read `__name__` of a function, but to start it again in a child process (kit/child.py).
"""

import ast
import hashlib
import pathlib

ROOTS = ("check", "measure")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def identity(program, files=None):
    """64 hexadecimal digits for a program: a pathlib.Path, which is read with what it imports from beside it, or the text of a single file.

    files  {name: text} of what is served beside the single file; only those in its FOLDER count
    """
    module = Module(program) if isinstance(program, pathlib.Path) else Module(None, program)
    said = reached(module, ROOTS)
    if not said:
        raise ValueError(f"neither {' nor '.join(ROOTS)} is defined, so there is nothing that measures")
    called = {node.attr for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    for name, part in loaded_by_name(module, files or {}):
        said += [name, *reached(part, sorted(called & set(part.bound)))]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def loaded_by_name(module, files):
    """[(name, Module), …] of the folder that a program names in its constant FOLDER; of none where it names no folder."""
    if (folder := folder_of(module)) is None:
        return []
    if module.path:
        return [(path.stem, Module(path)) for path in sorted(module.path.parent.glob(f"{folder}/*.py"))]
    names = sorted(name for name in files if pathlib.PurePosixPath(name).match(f"{folder}/*.py"))
    return [(pathlib.PurePosixPath(name).stem, Module(None, files[name])) for name in names]


def folder_of(module):
    """What a program says in its constant FOLDER, or None."""
    return next((ast.literal_eval(statement.value) for statement in module.bound.get("FOLDER", ())), None)


def reached(module, roots):
    """The statements that the names of `roots` in a module reach, as text, in order of reach."""
    numbers, said, dumps, queue = {}, set(), [], []

    def number(name, home):
        """What stands for a name of a module: its number in order of reach; for what is imported from elsewhere, where from."""
        owner, found = home.find(name)
        if isinstance(found, str):
            return found
        if (owner.path, name) not in numbers:
            numbers[owner.path, name] = len(numbers)
            queue.append((owner, name, found))
        return numbers[owner.path, name]

    for name in roots:
        if name in module.bound:
            number(name, module)
    for owner, name, statements in queue:                  # it grows
        for statement in statements:
            at = owner.path, statement.lineno, statement.col_offset
            if at not in said:
                said.add(at)
                dumps.append(_dump(statement, frozenset(), lambda name: number(name, owner), top=True))
    return dumps


class Module:
    """A file's top level: which statements bind a name, and what it imports, from beside it or from elsewhere."""

    def __init__(self, path, text=None, loaded=None):
        self.path, self.loaded = path, {} if loaded is None else loaded
        self.text = path.read_bytes().decode("utf-8") if text is None else text
        self.tree = ast.parse(self.text)
        self.bound, self.imports, self.local = {}, {}, {}      # {name: [statement]}, {name: where from}, {name: (module, name)}
        for statement in self.tree.body:
            if is_import(statement):
                for node in ast.walk(statement):
                    if isinstance(node, ast.Import):
                        self.imports |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
                    elif isinstance(node, ast.ImportFrom):
                        self._import_from(node)
            elif not is_guard(statement):
                for name in binds(statement):
                    self.bound.setdefault(name, []).append(statement)

    def _import_from(self, node):
        path = beside(self.path, node.module)
        if path is None:
            self.imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            return
        if path not in self.loaded:
            self.loaded[path] = Module(path, loaded=self.loaded)
        self.local |= {alias.asname or alias.name: (self.loaded[path], alias.name) for alias in node.names}

    def find(self, name):
        """(the module that defines a name, its statements), or (this module, where the name is imported from, or the name of a builtin)."""
        if name in self.bound:
            return self, self.bound[name]
        if name in self.local:
            module, name = self.local[name]
            return module.find(name)
        return self, self.imports.get(name, name)


def beside(path, module):
    """The file of a module that stands beside the program at `path`, or beside its folder; None for one from elsewhere."""
    roots = path.resolve().parents[:2] if path and module else ()
    return next((file for root in roots if (file := root.joinpath(*module.split(".")).with_suffix(".py")).is_file()), None)


def is_import(statement):
    """An import, or a try around imports."""
    return isinstance(statement, (ast.Import, ast.ImportFrom)) or isinstance(statement, ast.Try) and all(map(is_import, statement.body))


def is_guard(statement):
    """if __name__ == "__main__": what runs when the file is run, and is no part of what it defines."""
    return isinstance(statement, ast.If) and any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def binds(statement):
    """The names that a statement at the top of a module gives a value to, or changes."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Expr):
        targets = [statement.value.func] if isinstance(statement.value, ast.Call) else []
    else:
        targets = [node for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Store)]
    names = []
    for node in targets:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        names += [node.id] if isinstance(node, ast.Name) else []
    return list(dict.fromkeys(names))


def scope(function):
    """The names that are a function's own: arguments, and what its body binds."""
    args = function.args
    names = {arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if arg}
    outer, todo = set(), list(function.body) if isinstance(function.body, list) else [function.body]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            names |= {inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)}
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.Global):
            outer |= set(node.names)
        todo += ast.iter_child_nodes(node)
    return names - outer


def parts(node, own):
    """(field, value, the names that are local in it) for each field of a node, in order; `own` are the local names around it."""
    inner = own
    if isinstance(node, FUNCTIONS):
        inner = own | scope(node)
    elif isinstance(node, COMPREHENSIONS):
        inner = own | {name.id for generator in node.generators for name in ast.walk(generator.target) if isinstance(name, ast.Name)}
    for field in node._fields:
        value = getattr(node, field, None)
        if field == "body" and isinstance(node, ast.ClassDef):           # its methods do not see the names of its body
            rest = [statement for statement in value if not isinstance(statement, FUNCTIONS)]
            yield field, [statement for statement in value if isinstance(statement, FUNCTIONS)], own
            yield field, rest, own | {name for statement in rest for name in binds(statement)}
        else:
            yield field, value, own if isinstance(node, FUNCTIONS) and field != "body" else inner


def globals_of(node, own=frozenset()):
    """The names below a node that are not local, in order: those of the module, and builtins."""
    if isinstance(node, ast.Name):
        return [] if node.id in own else [node.id]
    found = []
    for _, value, inner in parts(node, own):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                found += globals_of(child, inner)
    return list(dict.fromkeys(found))


def _dump(node, own, number, top=False):
    """A node as text, without what Pythons differ in, docstrings and prints; names of modules by number(name)."""
    if isinstance(node, list):
        return f"[{' '.join(_dump(child, own, number) for child in node if not _is_print(child, own))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name):
        return f"<{node.id if node.id in own else number(node.id)}>"
    said = []
    for field, value, inner in parts(node, own):
        if field in ("ctx", "kind", "type_comment") or value is None or value == []:
            continue
        if field == "name" and top:
            value = number(value)
        if isinstance(value, list) and value[0] is _docstring(node):
            value = value[1:]
        if field == "values" and isinstance(node, ast.JoinedStr):
            value = _joined(value)
        said.append(f"{field}={_dump(value, inner, number)}")
    return f"{type(node).__name__}({' '.join(said)})"


def _docstring(node):
    """The statement that is a definition's docstring, or None."""
    return node.body[0] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None else None


def _joined(values):
    """The parts of an f-string with neighbouring texts as one and no empty one, as not every Python leaves them."""
    found = []
    for value in values:
        if isinstance(value, ast.Constant) and found and isinstance(found[-1], ast.Constant):
            found[-1] = ast.Constant(found[-1].value + value.value)
        elif not (isinstance(value, ast.Constant) and value.value == ""):
            found.append(value)
    return found


def _is_print(node, own):
    """A call of print() as a statement: it is for people. What a child process hands its parent goes through reply() of kit/child.py."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print" and "print" not in own
