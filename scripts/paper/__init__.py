"""The tables and figures of the paper, each measured again by a script."""
