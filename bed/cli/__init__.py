"""The subcommands of ``python -m bed``."""
