"""One file of many: a program of examples/ with what it uses of examples/kit and of its neighbours, as readers get it.

    python tools/bundle.py examples/decode_attention.py     print the single file
    python tools/bundle.py --to DIR                         write all of examples/ as it is published

The program itself stands first, in its own order, and what it imports from beside it last, section by section; only what a
definition needs at once (a default, a decorator, a value computed at import) stands right before it, and constants behind the
imports. A file that imports nothing from beside it is its own bundle, byte for byte.
"""
import argparse
import ast
import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.append(str(EXAMPLES))
from kit.identity import Module, beside, binds, globals_of, is_guard, is_import  # noqa: E402

GAP = "\n\n\n"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class BundleError(Exception):
    """What cannot be made into one file, and why."""


def bundle(path):
    """The text of the single file of the program at `path`."""
    program = Module(pathlib.Path(path).resolve())
    if not program.local:
        return program.text
    own = [statement for statement in program.tree.body if not is_import(statement)]
    needed = _needed(program, own)
    early = _early(program, own, needed)
    constants = _constants(needed)
    blocks = _blocks(program)
    head, placed = blocks.pop(0), set(constants)
    if any(set(early.get(statement, [])) - placed for statement in head[1]):
        raise BundleError(f"{program.path.name}: a constant of the first lines needs a function that is imported: put it behind two blank lines")
    out = [_head(program, head, needed, constants)]
    for block, statements in blocks:
        for key in [key for statement in statements for key in early.get(statement, [])]:
            if key not in placed:
                placed.add(key)
                out.append(_text(*needed[key]))
        if any(map(is_guard, statements)):
            out += _sections(program, needed, placed)
        out.append(block)
    if not any(map(is_guard, own)):
        out += _sections(program, needed, placed)
    text = GAP.join(out) + "\n"
    compile(text, str(path), "exec")
    return text


def _needed(program, own):
    """{(file, line): (module, statement)} of what the statements reach beside them, in the order of their modules and lines."""
    found, names = {}, {}
    todo = [(program, name) for statement in own for name in globals_of(statement)]
    for module, name in todo:                              # it grows
        owner, statements = module.find(name)
        if owner is program or isinstance(statements, str):
            continue
        if names.setdefault(name, owner) is not owner or name in program.bound:
            raise BundleError(f"{program.path.name}: {name} is two things, one of them of {owner.path.name}: rename one")
        for statement in statements:
            if (key := (owner.path, statement.lineno)) not in found:
                found[key] = owner, statement
                todo += [(owner, name) for name in globals_of(statement)]
    order = list(program.loaded)
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def _constants(needed):
    """The keys of what is neither a definition nor made by one: it may stand at the top."""
    found, names = [], set()
    for key, (module, statement) in needed.items():
        if not isinstance(statement, DEFINITIONS) and not _calls(statement) and all(name in names or name in binds(statement) or isinstance(module.find(name)[1], str) for name in globals_of(statement)):
            found.append(key)
            names |= set(binds(statement))
    return found


def _early(program, own, needed):
    """{statement of the program: [keys of what must stand before it, in order]}."""
    early = {}
    for statement in own:
        if not is_guard(statement):
            early[statement] = []
            _before(program, statement, needed, early[statement], set())
    return early


def _before(module, statement, needed, out, seen, all_of_it=False):
    """Put into `out` what must be defined before a statement is run; with `all_of_it`, before what it defines is called."""
    now = _at_once(statement)
    called = any(map(_calls, now))
    for node in [statement] if all_of_it else now:
        for name in globals_of(node):
            owner, statements = module.find(name)
            for found in [] if isinstance(statements, str) else statements:
                key = owner.path, found.lineno
                if (key, called or all_of_it) not in seen and found is not statement:
                    seen.add((key, called or all_of_it))
                    _before(owner, found, needed, out, seen, called or all_of_it)
                    if key in needed and key not in out:
                        out.append(key)


def _at_once(statement):
    """The parts of a statement that are computed when it is run: all but the bodies of functions."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [*statement.decorator_list, *statement.args.defaults, *filter(None, statement.args.kw_defaults)]
    if isinstance(statement, ast.ClassDef):
        return [*statement.decorator_list, *statement.bases, *statement.keywords, *(part for inner in statement.body for part in _at_once(inner))]
    return [statement]


def _calls(node):
    return any(isinstance(inner, ast.Call) for inner in ast.walk(node))


def _blocks(program):
    """The head (what stands before the first gap of two lines), then (text, statements) for each block behind it."""
    text, line, out = program.text.removesuffix("\n"), 1, []
    for block in text.split(GAP):
        last = line + block.count("\n")
        inside = [statement for statement in program.tree.body if line <= statement.lineno <= last]
        if any(statement.end_lineno > last for statement in inside) or out and any(map(is_import, inside)):
            raise BundleError(f"{program.path.name}:{line}: two blank lines stand between top-level definitions only, and imports before the first")
        out.append((block, inside))
        line = last + len(GAP)
    return out


def _head(program, head, needed, constants):
    """Docstring, the imports of all, the constants of all."""
    block, statements = head
    lines = block.split("\n")
    imports = [statement for statement in statements if is_import(statement)]
    first, last = imports[0].lineno, max(statement.end_lineno for statement in imports)
    if any(first < statement.lineno < last and not is_import(statement) for statement in statements):
        raise BundleError(f"{program.path.name}: the imports must stand together")
    if any(isinstance(node, ast.Import) or beside(program.path, node.module) is None for statement in imports if isinstance(statement, ast.Try) for node in statement.body):
        raise BundleError(f"{program.path.name}: a try around imports holds those from beside it and no other, since the single file is without it")
    above, below = "\n".join(lines[: first - 1]), "\n".join(lines[last:]).strip("\n")
    shared = "\n".join(_text(*needed[key]) for key in constants)
    return above + "\n" + "\n\n".join(filter(None, [_imports(program, imports, needed), "\n".join(filter(None, [shared, below]))]))


def _imports(program, imports, needed):
    """The imports of the program and of what it uses, each once: whole modules first, then names of modules, in alphabetical order."""
    modules = [(program, [node for statement in imports for node in ast.walk(statement) if isinstance(node, (ast.Import, ast.ImportFrom))])]
    for owner, statement in needed.values():
        used = set(globals_of(statement)) & set(owner.imports)
        nodes = [node for node in owner.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        modules.append((owner, [type(node)(**{**vars(node), "names": names}) for node in nodes if (names := [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in used])]))
    whole, parts = set(), {}
    for module, nodes in modules:
        for node in nodes:
            if isinstance(node, ast.Import):
                whole |= {ast.unparse(ast.Import([alias])) for alias in node.names}
            elif beside(module.path, node.module) is None:
                parts.setdefault(node.module, set()).update(ast.unparse(alias) for alias in node.names)
    return "\n".join([*sorted(whole), *(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(parts.items()))])


def _sections(program, needed, placed):
    """What is used of each module and not placed yet, under a comment that names the module by the first sentence of its docstring."""
    out = []
    for path, module in sorted(program.loaded.items(), key=lambda item: item[0].parent.name == "kit"):       # its own parts and neighbours before the kit
        texts = [_text(*found) for key, found in needed.items() if key[0] == path and key not in placed]
        if texts:
            title = ast.get_docstring(module.tree).split("\n")[0] if path.with_name("__init__.py").is_file() else f"Of {path.name}."
            out += [f"# {title}\n\n{texts[0]}", *texts[1:]]
    return out


def _text(module, statement):
    """A statement as it stands in its file, with its decorators, the comment that touches it and one behind it."""
    lines = module.text.splitlines()
    first = min([statement.lineno, *(decorator.lineno for decorator in getattr(statement, "decorator_list", []))])
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    return "\n".join(lines[first - 1 : statement.end_lineno])


def published(folder=EXAMPLES):
    """{name: text} of the programs as the site serves them. A package holds parts and is not among them, nor are exercises, which core/exercises.py makes."""
    paths = sorted(path for path in folder.rglob("*.py") if not path.with_name("__init__.py").is_file() and folder / "exercises" not in path.parents)
    return {path.relative_to(folder).as_posix(): bundle(path) for path in paths}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", type=pathlib.Path)
    parser.add_argument("--to", type=pathlib.Path, metavar="DIR", help="write every program of examples/ there, as published")
    options = parser.parse_args(argv)
    if not options.program and not options.to:
        parser.error("name a program, or a folder: --to DIR")
    try:
        for name, text in published().items() if options.to else [("", bundle(options.program))]:
            if options.to:
                (options.to / name).parent.mkdir(parents=True, exist_ok=True)
                (options.to / name).write_text(text, "utf-8", newline="\n")
            else:
                print(text, end="")
    except BundleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
