"""Measured results: read, refuse what is incomplete, say whether the program has changed since."""
import hashlib
import json
import math
import pathlib
import re

import jsonschema

from .errors import PageError

LARGEST = 16 * 2**20   # bytes of one result


def load(folder, examples):
    """Read `<folder>/<gpu>/<lab>.json` into {(gpu, lab): result}; each gains `stale` and `url`.

    folder    pathlib.Path of examples/results, with schema.json in it
    examples  pathlib.Path of examples, to compare each program with what was measured
    Raises PageError naming the file and the field for anything that is not a complete result.
    """
    folder, examples = pathlib.Path(folder), pathlib.Path(examples)
    schema = folder / "schema.json"
    if not schema.is_file():
        return {}
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text("utf-8")))
    found = {}
    for path in sorted(folder.glob("*/*.json")):
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
        result["stale"] = digest(program.read_bytes()) != result["source"]["sha256"]
        result["url"] = where
        found[path.parent.name, path.stem] = result
    return found


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
