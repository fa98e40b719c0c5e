"""Tests which engine the wheel's console script picks for a PyTorch, and what it says if there is none.

    python3 console_script_test.py FOLDER          cli/wheel/memtune
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(1))
# Stands in for the program: prints what it was started with.
PROGRAM = """#!/bin/sh
echo "trial=$MEMTUNE_TRIAL"
echo "engine=$MEMTUNE_ENGINE"
echo "why=$MEMTUNE_NO_ENGINE"
echo "python=$MEMTUNE_PYTHON"
echo "arguments=$*"
"""


class ConsoleScript(unittest.TestCase):
    def setUp(self):
        self.site = os.path.realpath(tempfile.mkdtemp(prefix="memtune-site-"))
        self.addCleanup(shutil.rmtree, self.site)
        self.package = os.path.join(self.site, "memtune")
        shutil.copytree(SCRIPT, self.package)
        for release in ("2.11", "2.15"):
            os.makedirs(os.path.join(self.package, "engines", release))
        os.makedirs(os.path.join(self.package, "bin"))
        with open(os.path.join(self.package, "bin", "memtune"), "w") as file:
            file.write(PROGRAM)
        os.chmod(file.name, 0o755)

    def install_torch(self, version, cuda, site=""):
        folder = os.path.join(site or self.site, "torch")
        os.makedirs(folder)
        with open(os.path.join(folder, "version.py"), "w") as file:
            file.write(f"from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n__version__ = '{version}'\n"
                       f"debug = False\ncuda: Optional[str] = {cuda!r}\ngit_version = '0'\nhip: Optional[str] = None\n")
        with open(os.path.join(folder, "__init__.py"), "w") as file:
            file.write("raise SystemExit('torch was imported')\n")

    def start(self, *arguments, **variables):
        """What the program was started with, as a dictionary. -I: only the path that is given."""
        path = variables.pop("path", [self.site])
        code = f"import sys; sys.path[:0] = {path!r}; from memtune.__main__ import main; main()"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code, *arguments], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def test_the_engine_of_the_environments_release_is_used(self):
        for release, cuda in (("2.11.0+cu130", "13.0"), ("2.15.0", "13.2"), ("2.15.1+cpu", None)):
            self.install_torch(release, cuda)
            started = self.start("sweep", "--model", "a b")
            self.assertEqual(started["trial"], f"{self.package}/engines/{release[:4]}/memtune-trial")
            self.assertEqual((started["engine"], started["why"]), (release[:4], ""))
            self.assertEqual((started["arguments"], started["python"]), ("sweep --model a b", sys.executable))
            shutil.rmtree(os.path.join(self.site, "torch"))

    def test_without_an_engine_the_program_starts_and_knows_why(self):
        for release, cuda, why in (
                ("", None, "there is no PyTorch in this environment: pip install 'memtune[engine]' (PyTorch 2.11, 2.15)"),
                ("2.4.1+cu121", "12.1", "there is no engine for PyTorch 2.4.1+cu121, only for releases of 2.11, 2.15: install one "
                                        "of these"),
                ("2.16.0", "13.3", "there is no engine for PyTorch 2.16.0, only for releases of 2.11, 2.15: install one of these"),
                ("2.11.0+cu128", "12.8", "this PyTorch 2.11 is built for CUDA 12.8, and the engine for CUDA 13: install "
                                         "PyTorch from PyPI")):
            if release:
                self.install_torch(release, cuda)
            started = self.start("report")
            self.assertEqual((started["trial"], started["why"], started["arguments"]), ("", why, "report"))
            shutil.rmtree(os.path.join(self.site, "torch"), ignore_errors=True)

    def test_a_pytorch_elsewhere_is_not_used(self):
        with tempfile.TemporaryDirectory() as other:
            self.install_torch("2.15.0", "13.2", other)
            started = self.start("doctor", path=[self.site, other])
            self.assertEqual(started["trial"], "")
            self.assertEqual(started["why"], f"PyTorch is in {os.path.realpath(other)} and memtune in {self.site}: install "
                                             "memtune where PyTorch is, without links")

    def test_the_pytorch_beside_memtune_comes_first_and_a_folder_of_that_name_does_not_count(self):
        self.install_torch("2.11.0", "13.0")
        with tempfile.TemporaryDirectory() as other:
            self.install_torch("2.15.0", "13.2", other)
            self.assertEqual(self.start("doctor", path=[other, self.site])["engine"], "2.11")

    def test_a_build_that_is_no_release_has_no_engine(self):
        for version in ("2.15.0.dev20261101+cu130", "2.11.0a0+e0b0ad5.nv26.01", "2.15.0rc1"):
            self.install_torch(version, "13.0")
            self.assertIn(f"no engine for PyTorch {version}, only for releases of 2.11, 2.15", self.start("doctor")["why"])
            shutil.rmtree(os.path.join(self.site, "torch"))

    def test_a_package_of_links_is_refused(self):
        self.install_torch("2.11.0", "13.0")
        with tempfile.TemporaryDirectory() as cache:
            aside = os.path.join(cache, "engines")
            shutil.move(os.path.join(self.package, "engines"), aside)
            os.makedirs(os.path.join(self.package, "engines"))
            for release in os.listdir(aside):
                os.symlink(os.path.join(aside, release), os.path.join(self.package, "engines", release))
            self.assertIn("install memtune where PyTorch is, without links", self.start("doctor")["why"])

    def test_a_program_that_the_user_names_is_kept(self):
        self.assertEqual(self.start("doctor", MEMTUNE_TRIAL="/mine")["trial"], "/mine")


if __name__ == "__main__":
    unittest.main()
