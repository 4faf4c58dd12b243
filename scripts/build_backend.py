"""setuptools, with the list of what a source distribution holds in .manifest.in.

Without a list setuptools packs some of the tests and none of what they import.
"""

from setuptools.build_meta import *  # noqa: F403
from setuptools.command.egg_info import manifest_maker

manifest_maker.template = ".manifest.in"
