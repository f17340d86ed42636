"""The parts of the metadata that depend on the public address of the repository.

The address is `repository` of `[tool.saccade]` in pyproject.toml. With it, the metadata has project
URLs, and every relative link of README.md becomes the address of that file at the tag of this
version. Without it, links become plain text and images are left out, so no link is dead.
"""

import re
import runpy
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")
"""A link to a relative address: its text and the address."""
IMAGE = re.compile(r'<img src="(?![a-z]+:)([^"]+)"([^>]*)>')
"""An image with a relative address: the address, and its other attributes."""


def long_description(page: str, repository: str, tag: str) -> str:
    """Return the README as it reads without the files around it."""

    link = rf"[\1]({repository}/blob/{tag}/\2)" if repository else r"\1"
    image = rf'<img src="{repository}/raw/{tag}/\1"\2>' if repository else ""
    prose_and_code = re.split(r"(^```.*?^```$)", page, flags=re.MULTILINE | re.DOTALL)
    prose_and_code[::2] = [LINK.sub(link, IMAGE.sub(image, prose)) for prose in prose_and_code[::2]]
    return re.sub(r"\n{3,}", "\n\n", "".join(prose_and_code))


def project_urls(repository: str, tag: str) -> dict[str, str]:
    """Return the project URLs; none without an address."""
    if not repository:
        return {}
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def main() -> None:
    """Build with the address in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    repository = settings["tool"]["saccade"]["repository"].rstrip("/")
    if repository and not repository.startswith("https://"):
        raise SystemExit(
            f"pyproject.toml: repository of [tool.saccade] is {repository!r}, expected an address "
            "that begins with https://. Correct it, or leave it empty"
        )
    tag = "v" + runpy.run_path(str(ROOT / "src" / "saccade" / "_version.py"))["__version__"]
    setup(
        long_description=long_description(
            (ROOT / "README.md").read_text(encoding="utf-8"), repository, tag
        ),
        long_description_content_type="text/markdown",
        project_urls=project_urls(repository, tag),
    )


if __name__ == "__main__":
    main()
