"""Writes docs/reference/trainer-configs.md from profiles/training.

    trainer_configs.py PROFILES [PAGE]

With PAGE it compares, and exits with 1 if the page is another one.
"""

import json
import pathlib
import sys
import textwrap

HEAD = """# Trainer configs

`memtune sweep --trainer NAME --config FILE` reads the config of six trainers. This page says what becomes of each key.
It is written from `profiles/training` by `docs/trainer_configs.py`.

1. A key may make the config one of other training. Then the sweep is refused, and `memtune sweep -- COMMAND` measures
   the trainer's own command. `--text-only` lifts the refusals about images.
2. Other keys become flags of memtune. The first row of a flag that holds is taken. `{key}` is the value of a key.
3. Some keys change neither memory, nor the time of a step, nor which parameters are trained. They are passed over.
4. The sweep names each remaining key as not measured, with its value.
"""


def shown(value):
    return "not set" if value is None else f"`{json.dumps(value) if not isinstance(value, str) else value or '(empty)'}`"


def meaning(wanted):
    if isinstance(wanted, list):
        return " or ".join(meaning(one) for one in wanted)
    if isinstance(wanted, dict) and "has" in wanted:
        return f"has `{wanted['has']}`" + (f", not {meaning(wanted['not'])}" if "not" in wanted else "")
    if isinstance(wanted, dict):
        other = wanted["not"] if isinstance(wanted["not"], list) else [wanted["not"]]
        rest = [one for one in other if one is not None]
        return ", ".join((["set"] if None in other else []) + ([f"not {meaning(rest)}"] if rest else []))
    return shown(wanted)


def when(row):
    return "; ".join([f"`{key}`: {meaning(wanted)}" for key, wanted in row.get("when", {}).items()] +
                     ([f"any of {codes(row['any'])}"] if row.get("any") else []))


def codes(names):
    return ", ".join(f"`{name}`" for name in names)


def table(head, rows):
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)])


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def section(name, profile):
    rows = profile["rows"]
    parts = [f"## {name}", wrapped("Looked up in: " + profile["description"] + "."), "Refused:",
             table(["because", "when"], [[row["refuse"] + (" (images)" if row.get("images") else ""), when(row)]
                                         for row in rows if "refuse" in row]),
             "Flags:", table(["flag", "value", "when"], [[f"`--{row['flag']}`", f"`{row['value']}`".replace("|", "\\|"), when(row)]
                                                         for row in rows if "flag" in row]),
             "Notes:", table(["note", "when"], [[row["note"], when(row)] for row in rows if "note" in row])]
    if "modules" in profile:
        parts.append(wrapped("Modules: " + ", ".join(f"`{a}` is `{b}`" for a, b in profile["modules"].items()) + "."))
    also = f", besides those of [{profile['like']}](#{profile['like']})" if "like" in profile else ""
    parts.append(f"Without effect on memory and time{also}:")
    parts.append(textwrap.indent(textwrap.fill(", ".join(profile["no_effect"]), 116, break_long_words=False,
                                               break_on_hyphens=False), "    "))
    parts.append("Without effect with these values:")
    parts.append(table(["key", "values"], [[f"`{key}`", ", ".join(shown(one) for one in values)]
                                           for key, values in profile["harmless"].items()]))
    return "\n\n".join(parts)


def main():
    profiles = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))}
    page = HEAD + "\n" + "\n\n".join(section(name, profile) for name, profile in profiles.items()) + "\n"
    if len(sys.argv) < 3:
        sys.stdout.write(page)
    elif pathlib.Path(sys.argv[2]).read_text() != page:
        sys.exit(f"{sys.argv[2]} is not what docs/trainer_configs.py writes")


if __name__ == "__main__":
    main()
