"""Marks the wheel as one with machine code for any Python 3: nothing in it is linked with Python."""
from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Programs(Distribution):
    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(distclass=Programs, cmdclass={"bdist_wheel": AnyPython})
