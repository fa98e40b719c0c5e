"""Tests the manual page with man, and the completions with each shell. Exit code 77 if a program is missing.

    python3 shells_test.py man|mandoc|bash|zsh|fish MANUAL

MANUAL is the folder written by memtune-manual.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77

# A line up to the cursor, and words that must be among the completions.
LINES = [
    ("memtune ", ["sweep", "report", "view", "doctor"]),
    ("memtune sw", ["sweep"]),
    ("memtune sweep --bud", ["--budget"]),
    ("memtune sweep --goal ", ["throughput", "memory"]),
    ("memtune sweep --strategy checkpoint:f", ["checkpoint:full"]),
    ("memtune report --format mem", ["memory-snapshot"]),
    ("memtune report --format=per", ["perfetto"]),
    ("memtune export --trainer ", ["torchtune", "axolotl"]),
    ("memtune view --tab com", ["compare"]),
    ("memtune plan val", ["validate"]),
    ("memtune diff sm", ["small.pt"]),
    ("memtune sweep --model sm", ["small", "small.pt"]),  # a profile, and a file in that folder
]


def output(*command, folder=None, text=None):
    result = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", f"{command}: {result.returncode}\n{result.stderr}"
    return result.stdout


def pages(manual):
    found = sorted(manual.glob("man1/*.1"))
    assert len(found) > 5, f"{manual} has {found}"
    return found


def check_man(manual):
    for page in pages(manual):
        text = output("groff", "-ww", "-z", "-man", "-Tutf8", str(page))
        assert text == "", f"{page.name}: {text}"
        shown = output("man", "-l", "--warnings", str(page))
        assert "NAME" in shown and "SEE ALSO" in shown, f"{page.name}: {shown}"


def check_mandoc(manual):
    for page in pages(manual):
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)], capture_output=True, text=True)
        assert lint.returncode == 0, lint.stdout


def bash_offers(script, line, folder):
    # bash replaces only the text after the last colon or equal sign. The line up to there completes the word.
    text = f"""source {script}
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; _memtune 2>/dev/null; printf '%s\\n' "${{COMPREPLY[@]}}" """
    word = line.split(" ")[-1]
    broken = word[: max(word.rfind(":"), word.rfind("=")) + 1]
    kept = "" if broken.endswith("=") else broken
    return [kept + offer for offer in output("bash", "-c", text, folder=folder).split("\n")]


def check_bash(manual):
    script = manual / "bash/memtune"
    output("bash", "-n", str(script))
    check_offers(lambda line, folder: bash_offers(script, line, folder))


def check_fish(manual):
    script = manual / "fish/memtune.fish"
    output("fish", "--no-execute", str(script))

    def offers(line, folder):
        found = output("fish", "-N", "-c", f"source {script}; complete -C {line!r}", folder=folder).split("\n")
        return [offer.split("\t")[0].removeprefix("--format=") for offer in found]

    check_offers(offers)


# zsh completes only in a terminal. This one writes every completion to a file.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source SETUP'
while zpty -r shell line && [[ $line != *READY* ]]; do :; done
zpty -w -n shell 'LINE'$'\\t\\C-U'
zpty -w shell 'print E''ND'
while zpty -r shell line && [[ $line != *END* ]]; do :; done
zpty -d shell
"""
ZSH_SETUP = """
fpath=(FOLDER $fpath)
autoload -U compinit
compinit -u -D
compdef _memtune memtune
zle-line-init() { print READY }  # the terminal is zsh's from here: before, it would edit the line itself
zle -N zle-line-init
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
    local -a hits
    builtin compadd -A hits "$@"
    print -rl -- $hits >>OFFERED
  fi
  builtin compadd "$@"
}
"""


def check_zsh(manual):
    script = manual / "zsh/_memtune"
    output("zsh", "-n", str(script))
    if not has_zpty():
        return

    def offers(line, folder):
        setup, offered = Path(folder, ".setup"), Path(folder, ".offered")
        offered.write_text("")
        setup.write_text(ZSH_SETUP.replace("FOLDER", str(script.parent)).replace("OFFERED", str(offered)))
        output("zsh", "-f", "-c", ZSH.replace("SETUP", str(setup)).replace("LINE", line), folder=folder)
        return [offer.removesuffix("=") for offer in offered.read_text().split("\n")]

    check_offers(offers)


def has_zpty():
    return subprocess.run(["zsh", "-f", "-c", "zmodload zsh/zpty"], capture_output=True).returncode == 0


def check_offers(offers):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "small.pt").touch()
        for line, expected in LINES:
            found = offers(line, folder)
            for word in expected:
                assert any(offer.strip() == word for offer in found), f"{line!r} offers {found}, not {word}"


def main():
    kind, manual = sys.argv[1], Path(sys.argv[2]).resolve()
    needed = {"man": ["man", "groff"]}.get(kind, [kind])
    if not all(shutil.which(program) for program in needed):
        return SKIPPED
    os.environ.update(LC_ALL="C.UTF-8", TERM="dumb", MANWIDTH="100")
    globals()["check_" + kind](manual)
    return 0


if __name__ == "__main__":
    sys.exit(main())
