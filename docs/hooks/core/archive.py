"""Zip archives that depend on names and contents only: built twice, they are equal byte for byte (with the same zlib)."""
import io
import pathlib
import sys
import zipfile


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
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for pattern in patterns for path in folder.glob(pattern)}
    files |= {name: text.encode("utf-8") for name, text in programs.items() if not name.startswith(("exercises/", "webgpu/"))}   # those are for the page
    return files | {"LICENSE": licence.read_bytes()}


def site(folder):
    """{name: bytes} of a built site, and how to open it."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".gz")}
    return files | {"README.txt": OPEN.encode("utf-8")}


OPEN = """\
The whole site, for reading without a network. Any file server will do:

    python3 -m http.server 8000

in this folder, then open http://127.0.0.1:8000/ in a browser. (Opened as files, browsers refuse the search and the programs in the pages.)

整个网站，断网也能读。用任意静态文件服务器打开：在本目录运行上面的命令，再用浏览器访问 http://127.0.0.1:8000/。
（直接双击文件打开时，浏览器会禁用搜索和页面里的程序。）
"""


if __name__ == "__main__":
    source, target = map(pathlib.Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(pack(site(source), target.stem))
    print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")
