"""Grader of the exercise {name}: which property fails, on which input, what was expected, what came.

    python grade_{name}.py my_solution.py [--lang en|zh] [--seed N] [--seconds 20] [--json]

Exit status: 0 every property holds · 1 one does not · 2 nothing to grade (no file, no Python, no function) · 3 no end in time.
Inputs are drawn afresh at each run, --seed repeats a run. Standard library only; the same file grades in the browser.
"""

import argparse
import builtins
import contextlib
import faulthandler
import gc
import io
import json
import linecache
import os
import sys
import threading
import traceback
import tracemalloc
from copy import deepcopy
from decimal import Decimal, localcontext
from math import inf, isclose, isfinite, isnan, nan
from random import Random, SystemRandom
from types import FunctionType

# What an exercise and its words bring; docs/hooks/core/exercises.py puts all into one file.
NAME, PROPERTIES, ARGUMENTS, TEXTS, WORDS = "", (), (), {}, {}


def call(function, args):
    return function(*args)


def written(args):
    return ", ".join(f"{name}={shown(x)}" for name, x in zip(ARGUMENTS, args))


def grade(solution, lang="en", seed=None):
    """Try every property on inputs drawn afresh; nothing of a solution is in what is said.

    solution: the function, or the module or dict that holds it. lang: "en" or "zh". seed repeats the inputs of a run.
    Returns one dict a property: property, title, passed, printed (for its last input); if it fails also input, expected, got,
    hint, line (where the function raised).
    Raises LookupError when solution has no such function.

    No accident and no small lie passes: what a function changes, looks at, returns or raises is judged, never trusted. One that computes
    the answer by other means, calls this file for it, or works against this file from a thread or in C, is beyond a grader in one process.
    """
    names = solution if isinstance(solution, dict) else vars(solution) if hasattr(solution, "__dict__") else {}
    function = solution if callable(solution) else names.get(NAME)
    if not callable(function):
        raise LookupError(WORDS[lang]["nothing"].format(name=NAME, file=names.get("__file__", "?")))
    solve, random, results = Solution(function, WORDS[lang]), Random(seed), []
    for attempt in PROPERTIES:
        title, hint = TEXTS[attempt.__name__][lang]
        result = {"property": attempt.__name__, "title": title, "passed": True}
        solve.line, solve.slipped = None, False
        try:
            attempt(solve, random)
        except Wrong as wrong:
            given, expected, got = wrong.args
            result |= {"passed": False, "input": given, "expected": expected, "got": got, "hint": solve.words["mend"] if solve.slipped else hint, "line": solve.line}
        result["printed"] = solve.printed.text()
        results.append(result)
    return results


class Wrong(Exception):
    """A property does not hold: (input, expected, got), as text."""


class Meddles(Exception):
    """The solution changes what grading rests on, or looks at it: the message is what it says."""


def guard():
    """A function that puts back what has since been changed of what grading rests on, and returns a name of it, or None."""
    places = (("builtins", builtins, vars(builtins)), ("grader", None, globals()), ("Solution", Solution, vars(Solution)), ("random.Random", Random, vars(Random)),
              ("json", json, vars(json)), ("json.JSONEncoder", json.JSONEncoder, vars(json.JSONEncoder)), ("tracemalloc", tracemalloc, vars(tracemalloc)))
    before = [(place, owner, names, dict(names)) for place, owner, names in places]
    bodies = [(place, name, value, value.__code__) for place, _, names, _ in before for name, value in names.items() if type(value) is FunctionType]

    def changed(setattr=setattr):                                               # builtins come first: the rest may call them again
        found = None
        for place, owner, names, kept in before:
            for name in kept:
                if name not in names or names[name] is not kept[name]:
                    found = f"{place}.{name}"
                    if owner is None:
                        names[name] = kept[name]
                    else:
                        setattr(owner, name, kept[name])
            for name in [*names]:
                if name not in kept and name in before[0][3]:                   # hides a builtin
                    found = f"{place}.{name}"
                    del names[name]
        for place, name, value, code in bodies:
            if value.__code__ is not code:
                found = f"{place}.{name}"
                value.__code__ = code
        return found

    return changed


LOOKS = {"sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile", "gc.get_objects", "gc.get_referrers", "gc.get_referents"}
FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}
END = os._exit


class Watch:
    """While the function runs, keeps it from the frames and objects in which the expected values stand."""

    on, seen, listens = False, None, False

    def __enter__(self):
        if not self.listens:                                                    # an audit hook stays for the life of the process
            sys.addaudithook(self.hear)
        self.listens, self.on, self.seen = True, True, None

    def __exit__(self, *error):
        self.on = False

    def hear(self, event, args):
        if not self.on or not (event in LOOKS or event == "object.__getattr__" and args[1] in FRAMES):
            return
        self.on = False                                                         # what follows looks at frames itself
        frame, file, own = sys._getframe(1), "", guard.__code__.co_filename
        while frame is not None and file != own and not file.startswith("<frozen importlib"):
            file, frame = frame.f_code.co_filename, frame.f_back
        self.on = True
        if file == own:                                                         # a module that looks while it is imported may
            self.seen = event if event in LOOKS else args[1]
            raise RuntimeError(self.seen)


WATCH = Watch()


@contextlib.contextmanager
def unended():
    """Within, os._exit() is sys.exit(): a solution cannot end the grader with the status of success. Decimal's settings are put back."""
    ends = [module for module in map(sys.modules.get, ("os", "posix", "nt")) if hasattr(module, "_exit")]
    try:
        for module in ends:
            module._exit = sys.exit
        with localcontext():
            yield
    finally:
        for module in ends:
            module._exit = END


class Solution:
    """The reader's function: called with copies; what it raises becomes a text that names the reader's line."""

    def __init__(self, function, words):
        self.function, self.words, self.printed, self.changed = function, words, Printed(), guard()
        self.line, self.slipped = None, False                                   # where it raised; a mistake of programming
        self.handed, self.careless = [], None                                   # lists of the last result; (input, expected, got) of the first trespass

    def __call__(self, *args):
        """What the function gives, as plain numbers, lists and tuples. Raises Meddles for one that changes or looks at the grader."""
        self.printed = Printed()
        try:
            with contextlib.redirect_stdout(self.printed), unended(), WATCH:
                got = call(self.function, args)
                lists, result = lists_of(got), plain(got)
                self.shares = bool({*map(id, lists)} & {*map(id, lists_of(args) + self.handed)})
                self.handed = lists
                return result
        finally:
            if (name := self.changed()) is not None:
                raise Meddles(self.words["meddles"].format(file=NAME, name=name)) from None
            if WATCH.seen is not None:
                raise Meddles(self.words["looks"].format(event=WATCH.seen)) from None

    def expect(self, args, expected, given=None):
        """Raise Wrong unless the function gives `expected` for `args`. given: the input as text, where `args` are long and made for this call."""
        args = deepcopy(args) if given is None else args
        given, before = given or f"{NAME}({written(args)})", text_of(args)
        try:
            got = self(*args)
            self.look_at_lists(args, given, before)
        except BaseException as error:
            raise Wrong(given, shown(expected), self.explain(error)) from None
        if not agrees(got, expected):
            texts = shown(expected), shown(got)
            raise Wrong(given, *(texts if texts[0] != texts[1] else (repr(expected), cut(repr(got)))))

    def expect_untouched(self, args):
        """Raise Wrong if the function changes what it was given, or hands it out, now or at any call of `expect` before."""
        given, before = f"{NAME}({written(args)})", text_of(args)
        try:
            self(*args)
            self.look_at_lists(args, given, before)
        except BaseException as error:
            raise Wrong(given, self.words["same"], self.explain(error)) from None
        if self.careless is not None:
            raise Wrong(*self.careless)

    def look_at_lists(self, args, given, before):
        if self.careless is None and text_of(args) != before:
            self.careless = given, self.words["same"], self.words["changed"].format(now=cut(written(args)))
        if self.careless is None and self.shares:
            self.careless = given, self.words["own"], self.words["shared"]

    def expect_flat(self, make):
        """Raise Wrong if memory grows with the number of keys; make(S) gives the arguments."""
        def peak(args):
            tracemalloc.start()
            try:
                self(*args)
                if not tracemalloc.is_tracing():
                    raise Meddles(self.words["meddles"].format(file=NAME, name="tracemalloc"))
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        given, few, many = self.words["memory"].format(function=NAME), make(150), make(1500)
        gc.disable()                                                            # a collection would empty the interpreter's stores
        try:
            for n in range(2, 12):                                              # of freed objects: these tuples fill some of them,
                [(n,) * n for _ in range(2000)]
            self(*many)                                                         # this call the rest
            grown = peak(many) - peak(few)
        except BaseException as error:
            raise Wrong(given, self.words["flat"], self.explain(error)) from None
        finally:
            gc.enable()
        if grown > 1024:
            raise Wrong(given, self.words["flat"], self.words["grown"].format(bytes=grown))

    def explain(self, error):
        if isinstance(error, KeyboardInterrupt):                                # the reader's Ctrl+C
            raise error
        if isinstance(error, Meddles):
            return str(error)
        if isinstance(error, NotImplementedError):
            return self.words["unwritten"]
        file = self.function.__code__.co_filename if hasattr(self.function, "__code__") else ""
        text = cut(said(error))
        self.slipped = not isinstance(error, (ArithmeticError, ValueError, MemoryError))
        lines = [n for frame, n in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
        if not lines:
            return text
        self.line = lines[-1]
        return self.words["raised"].format(error=text, line=self.line, code=linecache.getline(file, self.line).strip())


def lists_of(x, depth=4):
    """The lists in x, itself included; tuples are looked into."""
    inner = [found for one in x for found in lists_of(one, depth - 1)] if depth and type(x) in (list, tuple) and len(x) < 100 else []
    return [x, *inner] if type(x) is list else inner


def agrees(got, expected):
    """Equal up to rounding; lists and tuples entry by entry; NaN for NaN."""
    if isinstance(expected, (list, tuple)):
        return isinstance(got, (list, tuple)) and len(got) == len(expected) and all(map(agrees, got, expected))
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    return isnan(got) if isnan(expected) else isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)


def shown(x):
    """A value with six digits; lists and tuples as Python writes them."""
    if isinstance(x, float):
        return f"{x:.1f}" if isfinite(x) and x == int(x) and abs(x) < 1e6 else f"{x:.6g}"
    if isinstance(x, (list, tuple)) and len(x) <= 50:
        inner = ", ".join(map(shown, x))
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    return cut(repr(x))


def plain(got, depth=4):
    """A result without the classes of its maker, who may have overridden what comparing or printing calls; what is no number, list or tuple as its text."""
    kind = type(got)
    if kind is bool or got is None or kind is int and abs(got) < 2**1000:
        return got
    for base in (float, list, tuple):
        if issubclass(kind, base):
            return float.__pos__(got) if base is float else base([plain(x, depth - 1) for x in base.__iter__(got)] if depth else ["…"])
    return Text(text_of(got))


class Text(str):
    """What something looks like that is no number, list or tuple."""

    __repr__ = str.__str__


def text_of(x):
    """repr(), also where that fails."""
    try:
        return str(repr(x))
    except Exception as error:
        return f"<{type(x).__name__}, whose repr() raises {type(error).__name__}>"


def said(error):
    """An exception as its last line, also where its text fails."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return type(error).__name__


def cut(text, length=300):
    return text if len(text) <= length else text[:length] + " …"


class Printed(io.StringIO):
    """Keeps the first of what a solution prints: endless printing fills no memory."""

    cut = False

    def write(self, text):
        self.cut |= len(text) > 1990 - self.tell()
        return super().write(text[:max(0, 1990 - self.tell())])

    def text(self):
        return self.getvalue() + ("\n…" if self.cut else "")


class Problem(str):
    """Why there is nothing to grade, and in which line."""

    line = None


def load(path, lang):
    """The names that a solution's file defines, or a text that says why there are none."""
    words, file = WORDS[lang], os.path.basename(path)
    names = {"__name__": "solution", "__file__": path}
    try:
        with open(path, encoding="utf-8-sig") as text:
            exec(compile(text.read(), path, "exec"), names)
    except FileNotFoundError as error:
        return words["missing"].format(file=error.filename)
    except SyntaxError as error:
        problem = Problem(words["syntax"].format(file=file, line=error.lineno, error=error.msg))
        problem.line = error.lineno
        return problem
    except ModuleNotFoundError as error:
        return words["module"].format(module=error.name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return words["failing"].format(file=file, error=cut(said(error)))
    return names if callable(names.get(NAME)) else words["nothing"].format(name=NAME, file=file)


def main(argv=None):
    system = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("solution", nargs="?", default=f"{NAME}.py")
    parser.add_argument("--lang", choices=list(WORDS), default="zh" if system.startswith("zh") else "en")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", action="store_true", help="one line of JSON, for programs")
    options = parser.parse_args(argv)
    words, printed = WORDS[options.lang], Printed()
    if not options.json:                                                        # a program that asks for JSON stops us itself
        watch = threading.Timer(options.seconds, late, [words["late"].format(seconds=f"{options.seconds:g}")])
        watch.daemon = True
        watch.start()
        faulthandler.dump_traceback_later(options.seconds + 2, exit=True)       # where one call into C never ends, no thread of ours wakes
    changed = guard()
    with contextlib.redirect_stdout(printed):
        try:
            with unended():
                names = load(options.solution, options.lang)
            if (name := changed()) is not None:
                names = Problem(words["meddles"].format(file=os.path.basename(options.solution), name=name))
            results = grade(names, options.lang, options.seed) if isinstance(names, dict) else []
        except KeyboardInterrupt:
            late(words["stopped"], 130)
    problem = names if isinstance(names, str) else ""
    told = next((r for r in results if not r["passed"]), results[0] if results else {"printed": ""})
    printed = (printed.text() + told["printed"])[:2000]                         # for one input: where something fails, that one
    results = [{key: value for key, value in result.items() if key != "printed"} for result in results]
    if results and all(r.get("got") == words["unwritten"] for r in results):
        problem = f"{NAME}: {words['unwritten']}"
    if options.json:
        line = getattr(names, "line", None)
        print(json.dumps({"problem": problem, "line": line, "seed": options.seed, "results": results, "printed": printed}))
    elif problem:
        print(problem)
    else:
        report(results, words, options.seed, printed)
    return 2 if isinstance(names, str) else 0 if all(r["passed"] for r in results) else 1


def late(message, status=3):
    sys.__stdout__.write(message + "\n")
    sys.__stdout__.flush()
    END(status)


def report(results, words, seed, printed):
    if printed:
        print(printed.rstrip("\n") + "\n")
    for result in results:
        print(f"{words['ok'] if result['passed'] else words['no']:4}  {result['title']}")
        for key, name in [] if result["passed"] else [("input", words["input"]), ("expected", words["expected"]), ("got", words["got"]), ("hint", words["hint"])]:
            print(f"        {name}: {result[key]}")
    print(words["count"].format(passed=sum(r["passed"] for r in results), all=len(results), seed=seed))


if __name__ == "__main__":
    sys.exit(main())
