"""Packs the viewer that Emscripten compiled into one page: pack.py SHELL PROGRAM.js VERSION PAGE."""

import base64
import gzip
import pathlib
import sys


def packed(path):
    return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()


shell, program, version, page = sys.argv[1:]
program = pathlib.Path(program)
text = pathlib.Path(shell).read_text(encoding="utf-8")
for mark, value in (("@version@", version), ("@js@", packed(program)), ("@wasm@", packed(program.with_suffix(".wasm")))):
    if mark not in text:
        sys.exit(f"{shell} has no {mark}")
    text = text.replace(mark, value)
pathlib.Path(page).write_text(text, encoding="utf-8")
