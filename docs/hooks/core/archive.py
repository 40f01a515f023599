"""Zip archives that depend on names and contents only: built twice, they are equal byte for byte (with the same zlib)."""
import io
import pathlib
import sys
import zipfile

TOP = pathlib.Path(__file__).resolve().parents[3]


def pack(files, top):
    """The bytes of a zip of {name: bytes}, everything in a folder `top`, in the order of names, dated 1980, readable by all."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{top}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr, entry.compress_type = 3, 0o100644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return out.getvalue()


def examples(folder, programs, licence):
    """{name: bytes} of what a GPU machine needs: the programs, what they print, what was measured, a README, the licence.

    programs  {name: text} of the programs as single files
    """
    patterns = ("README.md", "outputs/*.txt", "results/schema.json", "results/*/*.json")
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for pattern in patterns for path in folder.glob(pattern) if not path.name.endswith(".cells.json")}
    files |= {name: text.encode("utf-8") for name, text in programs.items() if not name.startswith(("exercises/", "webgpu/"))}   # those are for the page
    return files | {"LICENSE": licence.read_bytes()}


def site(folder, languages):
    """{name: bytes} of a built site, and how to open it, in every language. languages: {language: its words}."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".gz")}
    return files | {"README.txt": "\n".join(words.archive.text for words in languages.values()).encode("utf-8")}


if __name__ == "__main__":
    sys.path[0] = str(TOP / "docs/hooks")                  # this folder has an html.py of its own
    from core.words import load

    source, target = map(pathlib.Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(pack(site(source, load(TOP / "docs/words")), target.stem))
    print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")
