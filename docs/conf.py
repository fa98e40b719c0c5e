"""Settings of the site. scripts/site builds it with Sphinx from the Markdown that GitHub also shows.

The source folder is the root of the repository, so links between docs/, bench/ and the root work as on GitHub.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

project = "memtune"
author = "the memtune authors"
copyright = "the memtune authors, Apache-2.0"  # noqa: A001 (the name is Sphinx's)
version = release = re.search(r"project\(memtune VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "bench/results/**.md", "bench/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
# Sphinx reads every folder that is not listed here.
exclude_patterns = ["build", "memtune-run", "memtune-runs", ".*", "cli", "cmake", "core", "gui", "profiles", "scripts", "tests", "shared"]

myst_heading_anchors = 4  # as on GitHub, links may lead to headings
smartquotes = False  # flags begin with two hyphens
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # examples may be incomplete

html_theme = "furo"
pygments_style = "default"
pygments_dark_style = "monokai"
html_title = "memtune"
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_additional_pages = {"index": "forward.html"}  # the root of the site leads to docs/index.html
html_copy_source = False
html_show_sphinx = False
html_use_index = False
