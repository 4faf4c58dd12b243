"""Print versions, devices, engines and where compiled code is kept."""

from .._config import show_config


def add_arguments(parser) -> None:
    """No options."""
    del parser


def run(options) -> int:
    """Print and succeed."""
    del options
    show_config()
    return 0
