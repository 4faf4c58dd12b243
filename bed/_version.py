"""The version, here and nowhere else: setup.cfg and `bed.__version__` read it."""

__version__ = "0.1.0"
