"""Build the documentation site: generate the reference, render all pages, check every link.

    python docs/make_site.py [--out site]

Pages that describe code are generated here from the code and are never stored: the command line,
the keys of recipes, the Python and the HTTP API. Everything is copied into a temporary folder,
rendered there by Zensical, which reads mkdocs.yml, and checked as HTML: a link or an image that
leads nowhere is an error, and so is anything that a page would load from the network.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE = ROOT / "src"
PROJECT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the repository's root, by their names below project/."""
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


def main() -> None:
    """Build the site into --out, or exit with what is wrong."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="saccade-docs-") as folder:
        stage(Path(folder))
        site = render(Path(folder))
        problems = list(broken_links(site))
        if problems:
            raise SystemExit("\n".join([*problems, f"{len(problems)} broken links"]))
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(site, out)
    print(f"wrote {out}; open {out / 'index.html'}")


def stage(folder: Path) -> None:
    """Copy the written pages into a folder and add the generated ones."""
    sys.path[:0] = [str(SOURCE), str(DOCS)]
    import make_command_line
    import make_http_api
    import make_python_api
    import make_recipe_keys

    docs = folder / "docs"
    shutil.copytree(DOCS, docs, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    generated = {
        "reference/command-line.md": make_command_line.page(),
        "reference/recipe-keys.md": make_recipe_keys.page(),
        "reference/built-in.md": make_recipe_keys.built_in(),
        "reference/http-api.md": make_http_api.page(),
        **{f"reference/python/{name}": text for name, text in make_python_api.pages().items()},
        **{f"project/{name}": from_root(ROOT / path) for path, name in PROJECT.items()},
    }
    for name, text in generated.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("paths: [src]", f"paths: [{SOURCE}]")
    (folder / "mkdocs.yml").write_text(settings, encoding="utf-8")


def from_root(page: Path) -> str:
    """Return a page of the repository's root with its links as they are below docs/project/."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/", "](../", text)
    for path, name in PROJECT.items():
        text = text.replace(f"]({path}", f"]({name}")
    return text


def render(folder: Path) -> Path:
    """Render the staged pages with Zensical, strictly, and return the folder of the site."""
    paths = [str(SOURCE), str(DOCS), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        report = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        raise SystemExit(report.partition("Traceback")[0] or report)
    return folder / "site"


class Links(HTMLParser):
    """Links, loaded files and anchors of one page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the address or the anchor of an element."""
        values = dict(attrs)
        self.anchors.update(filter(None, (values.get("id"), values.get("name"))))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        elif tag in LOADED and values.get(LOADED[tag]) and values.get("rel") != "canonical":
            self.loaded.append(values[LOADED[tag]] or "")


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for every link that leads nowhere and for everything loaded from elsewhere."""
    pages = {path: Links(path) for path in sorted(site.rglob("*.html"))}
    for page, content in pages.items():
        name = page.relative_to(site)
        yield from (f"{name}: loads {link}" for link in content.loaded if urlsplit(link).netloc)
        for link in (*content.links, *content.loaded):
            address = urlsplit(link)
            if address.scheme or address.netloc or page.name == "404.html":
                continue
            target = page if not address.path else page.parent / unquote(address.path)
            target = target.resolve() / "index.html" if target.is_dir() else target.resolve()
            if not target.exists():
                yield f"{name}: {link} does not exist"
            elif address.fragment and unquote(address.fragment) not in pages[target].anchors:
                yield f"{name}: {link} has no such anchor"


if __name__ == "__main__":
    main()
