"""Measured results: read, refuse what is incomplete, say whether what measures has changed since, and derive what is not stored."""
import functools
import hashlib
import json
import math
import pathlib
import re
import types

import bundle
import jsonschema
from kit import identity

from .errors import PageError

LARGEST = 16 * 2**20   # bytes of one result


def files(folder):
    """The results of a folder, without what notebooks gave (cells.py), in order."""
    return sorted(path for path in folder.glob("*/*.json") if "." not in path.stem)


def load(folder, examples, programs=None):
    """Read `<folder>/<gpu>/<lab>.json` into {(gpu, lab): result}; each gains `stale`, `url`, and `values` and `output`, made from its rows.

    folder    pathlib.Path of examples/results, with schema.json in it
    examples  pathlib.Path of examples, whose programs are compared with what was measured, and print the rows
    programs  {name below examples: text} of the programs as single files, where they are known already
    Raises PageError naming the file and the field for anything that is not a complete result.
    """
    folder, examples = pathlib.Path(folder), pathlib.Path(examples)
    schema = folder / "schema.json"
    if not schema.is_file():
        return {}
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text("utf-8")))
    found, labs = {}, {}
    for path in files(folder):
        where = f"examples/results/{path.relative_to(folder).as_posix()}"
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.parent.name):
            raise PageError(f"{where}: the folder must be a card's name as `make labs` writes it: lower-case letters, digits, hyphens.")
        result = _parse(path, where)
        errors = sorted(validator.iter_errors(result), key=lambda e: (e.validator != "required", [str(step) for step in e.path]))
        error = errors[0] if errors else None
        if error is not None:
            field = "/".join(map(str, error.absolute_path)) or "(top)"
            raise PageError(f"{where}: {field}: {error.message[:300]}. Measure again with `make labs LAB={path.stem}`.")
        if result["lab"] != path.stem:
            raise PageError(f"{where}: field lab says '{result['lab']}', the file's name says '{path.stem}'.")
        program = examples / f"{path.stem}.py"
        if not program.is_file():
            raise PageError(f"{where}: there is no examples/{path.stem}.py that measured it. Restore the program or remove the result.")
        if path.stem not in labs:
            labs[path.stem] = Lab(path.stem, programs[program.name] if programs else bundle.bundle(program), program)
        labs[path.stem].complete(result, where)
        result["url"] = where
        found[path.parent.name, path.stem] = result
    return found


class Lab:
    """A program as it now stands: which measurement it is, and what it makes of rows."""

    def __init__(self, name, text, path):
        self.name, self.text, self.path, self.module = name, text, path, None

    @functools.cached_property
    def id(self):
        return identity.identity(self.path)

    def complete(self, result, where):
        """Add `stale`, and the values and output of a result that does not hold them. Rows of another measurement may lack what is printed now."""
        old = result["schema"] == 1
        try:
            result["stale"] = digest(self.path.read_bytes()) != result["source"]["sha256"] if old else self.id != result["source"]["id"]
        except (SyntaxError, ValueError) as error:
            raise PageError(f"examples/{self.name}.py: {error}") from None
        if old:
            return
        try:
            result["values"], result["output"] = self.derived(result["rows"])
        except Exception as error:
            if not result["stale"]:
                raise PageError(f"{where}: examples/{self.name}.py cannot print its own rows: {type(error).__name__}: {str(error)[:200]}.") from None
            result["values"] = {}
            result["output"] = "".join(" ".join(f"{name}={value}" for name, value in row.items()) + "\n" for row in result["rows"])

    def derived(self, rows):
        """(values, printed text) of the rows; no lab needs torch for them."""
        if self.module is None:
            self.module = types.ModuleType(self.name)
            exec(compile(self.text, f"examples/{self.name}.py", "exec"), self.module.__dict__)
        lab, values, said = self.module, strict(self.module.values(rows)), []
        for number, row in enumerate(rows):
            if number == 0 or row.get("part") != rows[number - 1].get("part"):
                said.append(lab.header(row.get("part")))
            said.append(lab.line(row))
        return values, "".join(f"{text}\n" for text in [*said, lab.footer(values)] if text)


def strict(values):
    """The values with null for what JSON has no word for."""
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()}


def digest(data):
    """sha256 of a file's bytes with LF line ends (the same on every system)."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _parse(path, where):
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise PageError(f"{where}: no plain file, or larger than {LARGEST >> 20} MiB. Remove it, or measure again with `make labs LAB={path.stem}`.")
    try:
        return strict_json(path.read_text("utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise PageError(f"{where}: not strict JSON: {str(error)[:300]}. Measure again with `make labs LAB={path.stem}`.") from None


def strict_json(text):
    """What a JSON text says. Raises ValueError for what other readers of JSON refuse or read otherwise: NaN, a number that overflows, a name twice, half a character."""
    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    def number(digits):
        return refuse(digits[:30]) if math.isinf(float(digits)) else float(digits)

    def once(pairs):
        names = dict(pairs)
        return names if len(names) == len(pairs) else refuse("a name given twice, among " + ", ".join(names)[:200] + ",")

    result = json.loads(text, parse_constant=refuse, parse_float=number, object_pairs_hook=once)
    json.dumps(result, ensure_ascii=False).encode("utf-8")
    return result
