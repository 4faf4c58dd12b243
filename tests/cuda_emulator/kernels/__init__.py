"""Small kernels that test the emulator itself."""

import re
from pathlib import Path

from ..build import load_many

FOLDER = Path(__file__).parent


def compile_file(file, templates=(), **options):
    """All kernels of a file, by name; of templates, the instances that are given."""
    names = re.findall(r"^__global__ void (\w+)\(", (FOLDER / file).read_text(), re.M)
    generic = {instance.partition("<")[0] for instance in templates}
    expressions = [name for name in names if name not in generic] + list(templates)
    kernels = load_many(FOLDER / file, expressions, **options)
    return dict(zip(expressions, kernels, strict=True))


def find_line(file, mark):
    """File and line of a comment, as messages name them."""
    lines = (FOLDER / file).read_text().splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if line.endswith(f"  // {mark}"))
    return f"{file}:{number}"
