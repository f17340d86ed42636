"""The wheel and the source archive: what they hold, and that they work without the repository."""

import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import saccade

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "https://example.org/saccade"
BUILD = f"""
import pathlib
from setuptools import build_meta
build_meta.build_wheel("dist")
build_meta.build_sdist("dist")
settings = pathlib.Path("pyproject.toml")
text = settings.read_text()
assert 'repository = ""' in text
settings.write_text(text.replace('repository = ""', 'repository = "{ADDRESS}"'))
build_meta.prepare_metadata_for_build_wheel("with_address")
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Build both archives offline, from the files that git tracks."""
    work = tmp_path_factory.mktemp("release")
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in tracked:
        if (ROOT / name).is_file() and not name.startswith(("docs/", "benchmarks/")):
            (work / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (work / "tree" / name).write_bytes((ROOT / name).read_bytes())
    (work / "tree" / "dist").mkdir()
    (work / "tree" / "with_address").mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD], cwd=work / "tree", check=True, capture_output=True
    )
    [wheel], [source] = ((work / "tree" / "dist").glob(end) for end in ("*.whl", "*.tar.gz"))
    return wheel, source


@pytest.fixture(scope="module")
def installed(archives, tmp_path_factory):
    """Install the wheel into a new environment that shares only the dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(archives[0]) as wheel:
        wheel.extractall(site)
    # a folder named in a .pth file is searched, but its own .pth files are not read: the editable
    # installation of this repository stays invisible
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def run(python, *arguments, cwd):
    names = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in names}
    return subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env={**environment, "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_archives_hold_the_package_and_nothing_else(archives):
    with zipfile.ZipFile(archives[0]) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"saccade", "saccade_attention"}
    data = {Path(name).suffix for name in names if name.startswith("saccade/")}
    assert {".py", ".toml", ".html", ".css", ".js"} <= data
    assert "saccade/py.typed" in names
    with tarfile.open(archives[1]) as source:
        parts = {Path(name).parts[1] for name in source.getnames() if len(Path(name).parts) > 1}
    assert not parts & {"tests", "benchmarks", "tools", ".ci"}
    assert {"src", "README.md", "LICENSE", "pyproject.toml", "setup.py"} <= parts


def links(description):
    """Return the addresses of links, and those of images, outside of blocks of code."""
    prose = CODE.sub("", description)
    return re.findall(r"\]\(([^)]+)\)", prose), re.findall(r'src="([^"]+)"', prose)


def test_metadata_without_an_address_has_no_links(archives):
    with zipfile.ZipFile(archives[0]) as wheel:
        [name] = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    description = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_all("Project-URL") is None
    assert description.startswith("# Saccade")
    assert links(description) == ([], [])
    readme = (ROOT / "README.md").read_text()
    assert CODE.findall(description) == CODE.findall(readme)


def test_metadata_with_an_address_has_absolute_links_to_files(archives):
    [path] = (archives[0].parents[1] / "with_address").rglob("METADATA")
    metadata = email.message_from_bytes(path.read_bytes())
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL"))
    assert list(urls) == ["Homepage", "Documentation", "Changelog", "Issues"]
    assert urls["Homepage"] == ADDRESS
    pages, images = links(metadata.get_payload())
    pages += [urls["Documentation"], urls["Changelog"]]
    assert len(pages) > 10
    assert len(images) == 1
    for kind, addresses in (("blob", pages), ("raw", images)):
        start = f"{ADDRESS}/{kind}/v{saccade.__version__}/"
        assert [to for to in addresses if not to.startswith(start)] == []
        assert [to for to in addresses if not (ROOT / to.removeprefix(start)).is_file()] == []


def test_a_wheel_in_a_new_environment_lists_recipes_and_trains(installed, tmp_path):
    start = "import saccade; print(saccade.__file__); from saccade.cli import main; main()"
    where, _, printed = run(installed, "-c", start, "recipes", cwd=tmp_path).partition("\n")
    assert Path(where).is_relative_to(installed.parents[1])
    assert "transformer-tiny" in printed
    train = ["train", "reverse", "--data", "builtin:reverse", "--out", "run", "--max-steps", "2"]
    small = ["--set", "model.dim=8", "--set", "model.encoder.dim=8", "--set", "model.decoder.dim=8"]
    run(installed, "-m", "saccade", *train, *small, cwd=tmp_path)
    assert run(installed, "-m", "saccade", "predict", "run", "a b c", cwd=tmp_path)


def test_the_metadata_is_complete():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "saccade-attention"
    assert project["requires-python"] == ">=3.11,<3.14"
    assert saccade.__version__ == "0.2.0"
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    unbounded = [name for group in groups.values() for name in group if not set("><=[") & set(name)]
    assert unbounded == []
