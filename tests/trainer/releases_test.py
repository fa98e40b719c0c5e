"""Tests of check_releases.py with an index that shows other releases for a newer Python."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
PIP = """import sys
package, python = sys.argv[-1], sys.argv[sys.argv.index("--python-version") + 1]
release = {"megatron-core": "999.2" if python == "3.12" else "0.16.1"}.get(package, "0.0.1")
print("" if package == "deepspeed" and %r else f"{package} ({release})")
"""


class Releases(unittest.TestCase):
    def run_with(self, hides_one):
        with tempfile.TemporaryDirectory() as folder:
            pip = pathlib.Path(folder) / "pip.py"
            pip.write_text(PIP % hides_one)
            return subprocess.run([sys.executable, HERE / "check_releases.py", "--pip", f"{sys.executable} {pip}"],
                                  capture_output=True, text=True)

    def test_a_release_for_a_newer_python_is_seen(self):
        done = self.run_with(hides_one=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^megatron-core: described is [\d.]+, the newest is 999.2\n\d+ packages, 0 not found\n$")

    def test_a_package_without_a_release_fails(self):
        done = self.run_with(hides_one=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("deepspeed: the index has no release", done.stdout)


if __name__ == "__main__":
    unittest.main()
