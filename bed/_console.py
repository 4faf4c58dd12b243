"""What is printed, on consoles that cannot show all of it: transliterated, no error."""

import argparse
import sys
from typing import Any

# Letters and signs of this library, in ASCII.
_PLAIN = {
    "≤": "<=",
    "≥": ">=",
    "×": "x",
    "·": "*",
    "−": "-",
    "±": "+-",
    "→": "->",
    "…": "...",
    "µ": "u",
    "ᴴ": "^H",
    "ᵀ": "^T",
    "²": "^2",
    "³": "^3",
    "¹": "^1",
    "λ": "lambda",
    "Σ": "sum",
}


def printable(text: str, stream: Any = None) -> str:
    """The text with what a stream cannot encode in ASCII, or else escaped.

    Parameters
    ----------
    text : str
    stream : file, optional
        By default `sys.stdout`. One that does not tell its encoding takes anything.

    Examples
    --------
    >>> import io
    >>> printable("8 × 8, n ≤ 64", io.TextIOWrapper(io.BytesIO(), "ascii"))
    '8 x 8, n <= 64'
    """
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return "".join(_in_ascii(c) if _strange(c, encoding) else c for c in text)


def _strange(character: str, encoding: str) -> bool:
    return character.encode(encoding, "ignore") == b""


def _in_ascii(character: str) -> str:
    return _PLAIN.get(character) or ascii(character)[1:-1]


def escaped(name: Any) -> str:
    """The name of a file, with what `sys.stdout` cannot encode escaped.

    Transliterated it would be that of another file.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return str(name).encode(encoding, "backslashreplace").decode(encoding)


def show(*lines: Any, file: Any = None, end: str = "\n") -> None:
    """Print lines, at once; nothing else in this package prints."""
    file = sys.stdout if file is None else file
    text = "\n".join(map(str, lines))
    print(printable(text, file), file=file, end=end, flush=True)


def progress(text: str) -> None:
    """Show on a terminal what is being worked on, over the last such line.

    A line that cannot be shown stops nothing.
    """
    stream = sys.stderr
    try:
        if stream is not None and stream.isatty():
            show(f"\r\x1b[K{text}", file=stream, end="")
    except Exception:  # it is closed or gone, or stands in for a stream in part
        return


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose help can be shown anywhere."""

    def _print_message(self, message: str, file: Any = None) -> None:
        file = sys.stderr if file is None else file
        super()._print_message(printable(message or "", file), file)
