"""Writes the tables of docs/reference/trainers.md from profiles/trainers: all behind the first section of a trainer.

    trainer_keys.py PROFILES PAGE [--check]

With --check it compares, and exits with 1 if the page is another one.
"""

import json
import pathlib
import sys

from trainer_configs import codes, meaning, shown, table, when, wrapped

FORMS = {"yaml": "YAML", "json": "JSON", "toml": "TOML"}


def escaped(text):
    return text.replace("*", "\\*")


def one(key, wanted):
    if isinstance(wanted, list) and len(wanted) > 1 and wanted and not isinstance(wanted[0], (dict, type(None))):
        return f"`{key}`: one of {', '.join(shown(value) for value in wanted)}"
    if wanted is None:
        return f"no `{key}`"
    if isinstance(wanted, dict) and {"has", "not"} & set(wanted):
        return condition(key, wanted)
    if isinstance(wanted, list):
        return f"`{key}`: {meaning(wanted)}"
    return f"`{key}: {wanted if isinstance(wanted, str) else json.dumps(wanted)}`"


def keys(settings):
    return ", ".join(one(key, wanted) for key, wanted in settings.items())


def condition(key, wanted):
    """"`x: 1`", "`x` is set", "the command has `y`"."""
    subject = {"$command": "the command", "$name": "the variant's name"}.get(key, f"`{key}`")
    has = subject.startswith("the ")
    if isinstance(wanted, dict) and "has" in wanted:
        rest = f", not {meaning(wanted['not'])}" if "not" in wanted else ""
        return f"{subject} has `{wanted['has']}`{rest}"
    if isinstance(wanted, dict):
        others = wanted["not"] if isinstance(wanted["not"], list) else [wanted["not"]]
        texts = [f"`{value['has']}`" for value in others if isinstance(value, dict)]
        rest = [value for value in others if value is not None and not isinstance(value, dict)]
        parts = (["is set"] if None in others else []) + ([f"is not {meaning(rest)}"] if rest else [])
        return f"{subject} " + " and ".join(parts + (["has no " + " and no ".join(texts)] if texts else []))
    if wanted is None:
        return f"{subject} is not set"
    if isinstance(wanted, list):
        texts = [value["has"] if isinstance(value, dict) else None for value in wanted]
        if all(texts):
            return f"{subject} has " + " or ".join(f"`{text}`" for text in texts)
        return f"{subject} is " + " or ".join(meaning(value) for value in wanted)
    return f"`{key}: {wanted if isinstance(wanted, str) else json.dumps(wanted)}`" if not has else f"{subject} is `{wanted}`"


def conditions(row):
    return "; ".join(condition(key, wanted) for key, wanted in row.items())


def of_range(range_):
    since, before = range_.get("since"), range_.get("before")
    return f"{range_['package']}" + (f" from {since} on" if since else "") + (f" before {before}" if before else "")


def remarks(row, more=()):
    return "; ".join([*more, *([of_range(row["range"])] if "range" in row else []),
                      *(["read only where the config has one of the keys"] if row.get("stated") else []),
                      *(["only where n divides the blocks"] if row.get("divides") else []), *map(escaped, row.get("notes", []))])


def kinds(setting):
    words = {"bool", "int", "number", "text", "mapping", "list"}
    text = ", ".join(kind if kind in words else f"`{kind}`" for kind in setting["kinds"])
    if "items" in setting:
        text += " of " + codes(setting["items"])
    if "between" in setting:
        text += " " + ("from {} to {}" if len(setting["between"]) > 1 else "from {} on").format(*setting["between"])
    return text + (f" ({of_range(setting['range'])})" if "range" in setting else "")


def settings_of(profile):
    rows = [[f"`{key}`", kinds(setting), shown(setting["default"]) if "default" in setting else ""]
            for key, setting in profile["settings"].items()]
    return table(["setting", "kinds of value", "default"], rows)


def strategies_of(profile):
    written = [row for row in profile.get("strategies", []) if not row.get("read")]
    read = [row for row in profile.get("strategies", []) if row.get("read")]
    parts = ["**Strategies in its keys**",
             table(["strategy", "keys", "written as well", "only when", "notes"],
                   [[f"`{row['strategy']}`", keys(row["set"]), keys(row.get("also", {})), conditions(row.get("when", {})),
                     remarks(row)] for row in written])]
    if read:
        parts += ["Read by `--check`, and never written:",
                  table(["keys", "amounts to", "notes"],
                        [[keys(row["set"]) + (f" ({conditions(row['when'])})" if "when" in row else ""),
                          f"`{row['strategy']}`", remarks(row, ["nearly"] if row.get("nearly") else [])] for row in read])]
    return parts


def sharding_of(profile):
    names = {"always": "`--reshard always`", "after-backward": "`--reshard after-backward`", "on-host": "`--shard-offload`",
             "on-device": "no `--shard-offload`"}
    if "sharding" not in profile:
        return []
    return [table(["a run of several ranks with", "keys", "notes"],
                  [[names[name], keys(row["set"]), "; ".join(row.get("notes", []))]
                   for name, row in profile["sharding"].items()])]


def variants_of(profile):
    rows = [[axis["name"], f"`{choice['name']}`", keys(choice["set"]),
             "; ".join(([of_range(choice["range"])] if "range" in choice else []) +
                       ([f"`--allow {axis['allow']}`"] if "allow" in axis else []))]
            for axis in profile["axes"] for choice in axis["choices"]]
    if "batch" in profile:
        batch = profile["batch"]
        rows.append(["batch", codes(["batch-x2", "batch-x4", "batch-half"]),
                     f"`{batch['micro']}` and `{batch['accumulation']}`, whose product stays", ""])
    combinations = profile.get("combinations")
    return ["**Variants that a sweep of its command tries**", table(["axis", "variant", "sets", "needs"], rows),
            wrapped(f"Combinations: {codes(combinations)}." if combinations else "No combinations.")]


def rules_of(profile):
    said = lambda rule: [conditions(rule["when"]) + (f"; {of_range(rule['range'])}" if "range" in rule else ""),  # noqa: E731
                         escaped(rule["reason"])]
    parts = []
    for head, column, of in (("Excluded, or without effect:", "reason", lambda rule: not rule.get("note")),
                             ("Run, with a note:", "note", lambda rule: rule.get("note"))):
        rules = [said(rule) for rule in profile.get("rules", []) if of(rule)]
        if rules:
            parts += [head, table(["when", column], rules)]
    if "undecided" in profile:
        parts += ["What `--check` says where the keys amount to no strategy:",
                  table(["when", "reason"], [said(rule) for rule in profile["undecided"]])]
    return parts


def section(name, profile):
    releases = ", ".join(f"{package} {release}" for package, release in profile["releases"].items())
    parts = [f"## {name}", wrapped(f"Looked up in {releases}: {profile['description']}.")]
    form = ", ".join(FORMS[form] for form in profile.get("forms", [])) or "none"
    argument = f"`{profile['argument']}`" if profile.get("argument") else "none"
    removal = f" An argument like `{profile['removal']}` takes a key out." if "removal" in profile else ""
    plain = profile.get("argument_without_config")
    without = f", without a config `{plain}`" if plain else ""
    parts.append(f"Config: {form}. Argument: {argument}{without}.{removal}")
    for call in profile.get("calls", []):
        others = "the other settings" if not call["keys"] else codes(call["keys"])
        parts.append(f"Written as `{call['name']} = dict(...)`, for `{call['of']}(..., **{call['name']})`: {others}.")
    if "program" in profile:
        parts.append("In Python: " + ", ".join(f"`{word}` is `{code}`" for word, code in profile["program"].items()) + ".")
    if "arguments" in profile and not profile.get("calls"):
        parts.append(wrapped("Keys as flags: " + codes(profile["arguments"].values()) + "."))
    parts.append(settings_of(profile))
    if "renames" in profile:
        parts.append("\n".join(f"* `{one['from']}` " + ("may be" if one.get("older") else "is")
                               + f" `{one['to']}` in {of_range(one['range'])}." for one in profile["renames"]))
    for mapping, more in profile.get("closed", {}).items():
        parts.append(wrapped(f"Nothing else is read in `{mapping}`, except {codes(more)}. `--check` names other keys."))
    parts += strategies_of(profile)
    if "names" in profile:
        parts.append(wrapped("Names in `save=`: " + ", ".join(f"`{word}` is {codes(own)}"
                                                              for word, own in profile["names"].items()) + "."))
    parts += sharding_of(profile)
    if "loss" in profile:
        parts.append(wrapped(f"How its figures differ from memtune's: {profile['loss']}."))
    return "\n\n".join(parts + variants_of(profile) + rules_of(profile))


def order(page):
    """The sections of trainers, in the page's order."""
    return [line[3:] for line in page.splitlines() if line.startswith("## ")]


def main():
    profiles = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))}
    path = pathlib.Path(sys.argv[2])
    page = path.read_text()
    names = [name for name in order(page) if name in profiles]
    names += [name for name in profiles if name not in names]
    head = page[:page.index(f"\n## {names[0]}\n") + 1]
    written = head + "\n\n".join(section(name, profiles[name]) for name in names) + "\n"
    if "--check" not in sys.argv:
        path.write_text(written)
    elif page != written:
        sys.exit(f"{path} is not what docs/trainer_keys.py writes")


if __name__ == "__main__":
    main()
