"""Print the lowest direct versions that pyproject.toml allows, as pip constraints.

Torch stays at the version of constraints.txt, because it takes part in every other choice.

    python tools/lowest.py > lowest.txt
    pip install -c lowest.txt ".[serve,parquet,excel,track,demo]"
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("serve", "parquet", "excel", "hf", "track", "fast", "onnx", "demo")


def lowest() -> dict[str, str]:
    """Return the lower bound of each direct dependency by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(r for extra in EXTRAS for r in optional[extra])]
    bounds = {}
    for requirement in requirements:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)>=([0-9.]+)", requirement)
        if match is None:
            raise SystemExit(f"{requirement} has no lower bound of the form name>=version")
        bounds[match[1]] = match[2]
    return bounds


def pinned_torch() -> str:
    """Return the pin of torch from constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch=="))


if __name__ == "__main__":
    for name, version in lowest().items():
        print(pinned_torch() if name == "torch" else f"{name}=={version}")
