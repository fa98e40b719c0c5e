"""Packs the viewer that Emscripten compiled into one page: pack.py SHELL PROGRAM.js VERSION PAGE LICENCE..."""

import base64
import gzip
import pathlib
import sys


def packed(path):
    return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()


shell, program, version, page, *licences = sys.argv[1:]
licence = "\n".join(pathlib.Path(path).read_text(encoding="utf-8") for path in licences)
if "</" in licence or "<!--" in licence:
    sys.exit("a licence would end the element that holds it")
program = pathlib.Path(program)
text = pathlib.Path(shell).read_text(encoding="utf-8")
for mark, value in (("@version@", version), ("@licences@", licence), ("@js@", packed(program)),
                    ("@wasm@", packed(program.with_suffix(".wasm")))):
    if mark not in text:
        sys.exit(f"{shell} has no {mark}")
    text = text.replace(mark, value)
pathlib.Path(page).write_text(text, encoding="utf-8")
