"""Finds public functions in core's headers that nothing in core, cli and gui uses.

    python3 dead_functions_test.py [unittest arguments]

It compares names, so a function is not found if another one of its name is used. A use is a call, &name, Class::name,
or the bare name if no variable has it.
"""

import collections
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# {name: who uses it}
EXCEPTIONS = {
    "command_trainers": "tests: the table of the documents has the same commands",
    "direct": "tests: whether a file bypasses the page cache",
    "disk_bytes": "tests: after each step nothing is left on the disk",
    "gathered_now_bytes": "tests: which units are gathered",
    "lower_bound_ms": "tests: how far the solver is from the best choice",
    "metadata": "tests: what a file's header holds besides tensors",
}

LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|[^\s\w]|\d[\w.]*")
USE = re.compile(r"(\w+[>&*]*\s|[>&*]\s|)((?:::\s*|&)?)\b([A-Za-z_]\w*)\b(?=\s*(\(|<[^;(){}]*>\s*\(|[=;,)[{])?)")
NOT_A_TYPE = {"return", "else", "case", "co_return"}
NOT_A_NAME = {"decltype", "alignas", "explicit", "requires", "noexcept", "__attribute__"}
NOT_A_FUNCTION = {"using", "typedef", "static_assert", "friend", "operator"}


def code_of(text):
    """Without comments and literals. A digit separator does not begin a literal."""
    return LITERALS.sub(lambda found: " " if found[0][0] == "/" else '""', re.sub(r"(?<=\d)'(?=\d)", "", text))


def without_template(statement):
    """Without a leading template<...>, whose parameters may be classes."""
    if statement[:2] != ["template", "<"]:
        return statement
    depth = 0
    for i, token in enumerate(statement[1:], 1):
        depth += {"<": 1, ">": -1}.get(token, 0)
        if depth == 0:
            return statement[i + 1:]
    return []


def declared(statement):
    """(name, whether it overrides) of the function that these tokens declare or begin to define, or None."""
    if NOT_A_FUNCTION & set(statement):
        return None
    angles = parens = 0
    for i, token in enumerate(statement):
        before = statement[i - 1] if i else ""
        if token == "(" and not angles and not parens and before not in NOT_A_NAME:
            break
        if token == "=" and not angles and not parens:
            return None
        angles += (token == "<" and not parens and bool(re.match(r"[\w>]", before))) - (token == ">" and angles > 0)
        parens += {"(": 1, ")": -1}.get(token, 0)
    else:
        return None
    owner = statement[i - 3] if i > 2 and statement[i - 2] == "::" else ""
    is_constructor = before == owner or (i > 1 and statement[i - 2] == "~")
    if i < 2 or is_constructor or not re.match(r"[A-Za-z_]", before):
        return None
    return before, "override" in statement[i:]


def functions(code):
    """[(name, whether it is public, whether it overrides)] of all functions declared or defined in `code`."""
    found, statement, parens = [], [], 0
    scopes = [["namespace", "", True]]  # kind, name, whether it is public

    def note():
        function = declared(without_template(statement))
        if function and function[0] != scopes[-1][1]:
            found.append((function[0], all(public for _, _, public in scopes), function[1]))

    for token in TOKEN.findall(DIRECTIVE.sub(" ", code)):
        if scopes[-1][0] == "body":
            if token == "{":
                scopes.append(["body", "", False])
            elif token == "}":
                scopes.pop()
            continue
        parens += {"(": 1, ")": -1}.get(token, 0)
        if parens or token not in ("{", "}", ";", ":"):
            statement.append(token)
        elif token == ":":
            if statement in (["public"], ["private"], ["protected"]):
                scopes[-1][2] = statement == ["public"]
                statement = []
            else:
                statement.append(token)
        elif token == "{":
            statement = without_template(statement)
            kind = next((word for word in statement if word in ("namespace", "class", "struct", "enum", "(")), "")
            if kind == "namespace":
                scopes.append([kind, "", len(statement) > 1])
            elif kind in ("class", "struct"):
                scopes.append([kind, (statement + [""])[statement.index(kind) + 1], kind == "struct"])
            else:
                note()
                scopes.append(["body", "", False])
            statement = []
        else:
            if token == "}":
                scopes.pop()
            else:
                note()
            statement = []
    return found


def unused(files):
    """{name: file} of the public functions in core's headers that no file uses. `files`: {path: text}"""
    marked, bare, declarations = collections.Counter(), collections.Counter(), collections.Counter()
    variables, public = set(), {}
    for path, text in files.items():
        code = code_of(text)
        for before, mark, name, after in USE.findall(code):
            if mark or after[:1] in ("(", "<") and after:
                marked[name] += 1
                continue
            bare[name] += 1
            if after and before and before.strip() not in NOT_A_TYPE:
                variables.add(name)
        for name, is_public, overrides in functions(code):
            declarations[name] += 1
            if is_public and not overrides and path.startswith("core/") and path.endswith(".h"):
                public.setdefault(name, path)
    return {name: path for name, path in public.items()
            if marked[name] <= declarations[name] and (name in variables or not bare[name])}


def sources():
    return {str(path.relative_to(ROOT)): path.read_text() for folder in ("core", "cli", "gui")
            for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cpp", ".cu", ".cuh")}


class DeadFunctions(unittest.TestCase):
    maxDiff = None

    def test_every_public_function_of_core_is_used_or_listed_with_a_reason(self):
        found = unused(sources())
        dead = {name: path for name, path in found.items() if name not in EXCEPTIONS}
        self.assertEqual(dead, {}, "remove them, or list them in EXCEPTIONS with a reason")
        self.assertEqual(sorted(EXCEPTIONS.keys() - found.keys()), [], "used now, or gone: remove from EXCEPTIONS")

    def test_dead_functions_are_found_in_any_form(self):
        header = """
            // dead_free() in a comment
            namespace a {
            template <class T> double dead_free(const std::function<void(T)>& f, int b = 0);
            class A : public B {
             public:
              A(int x) : x_(f(x)) {}
              int dead_member() const { return x_; }
              void used(); void passed(); void overriding() override;
              static constexpr int kX = g(1);
             private:
              void hidden();
            };
            }"""
        source = """
            double dead_free(const std::function<void(T)>& f, int b) { return used() + (b > 0 ? "dead_member()" : 'x'); }
            const auto table = {passed};"""
        self.assertEqual(unused({"core/a.h": header, "core/a.cpp": source}),
                         {"dead_free": "core/a.h", "dead_member": "core/a.h"})

    def test_a_variable_of_the_same_name_is_no_use(self):
        header = "double saved_ms(int bytes);"
        self.assertEqual(unused({"core/a.h": header, "cli/a.cpp": "void f() { double saved_ms = 1; g(saved_ms); }"}),
                         {"saved_ms": "core/a.h"})
        self.assertEqual(unused({"core/a.h": header, "cli/a.cpp": "void f() { g(&saved_ms); }"}), {})


if __name__ == "__main__":
    unittest.main()
