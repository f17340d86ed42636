"""The folder of a comparison: where everything lies, and whether what is asked fits what is there.

compare.html  compare.json     what was found
attention.html                 where the models looked, if that is too much for compare.html
plan.toml  recipes/NAME.toml   what is compared
runs/NAME-SEED/                ordinary run folders
measured/NAME-SEED/            what was measured of each
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.compare.plan import Entrant
from saccade.data.corpus import Corpus
from saccade.errors import RunError
from saccade.files import disk_errors, write_file
from saccade.training import recipe as recipes
from saccade.training.run import Run, differences, flat

FORMAT = 1
PAGE, ATTENTION = "compare.html", "attention.html"
BUDGET = ("training.max_steps", "training.minutes")


@dataclass(frozen=True)
class Folder:
    """The folder of a comparison."""

    path: Path

    @property
    def json(self) -> Path:
        """What was found, for programs."""
        return self.path / "compare.json"

    def recipe(self, name: str) -> Path:
        """The recipe of an entrant, every key written out."""
        return self.path / "recipes" / f"{name}.toml"

    def run(self, name: str, seed: int) -> Path:
        """The run folder of a training."""
        return self.path / "runs" / f"{name}-{seed}"

    def measured(self, name: str, seed: int) -> Path:
        """Where the measurements of a training are."""
        return self.path / "measured" / f"{name}-{seed}"

    def keep(self, pages: Mapping[str, str]) -> None:
        """Write the pages, by their names, and no longer have those of before."""
        for name in (PAGE, ATTENTION):
            if name in pages:
                write_file(self.path / name, pages[name].encode())
            else:
                (self.path / name).unlink(missing_ok=True)

    def locked(self) -> AbstractContextManager[None]:
        """The folder for this process alone."""
        return Run(self.path).locked()

    def agree(
        self, entrants: Sequence[Entrant], data: str, corpus: Corpus, notify: Callable[[str], None]
    ) -> None:
        """Write down what is compared; refuse what does not fit with what was compared before.

        More recipes, more seeds and a larger budget do fit; what changed is said.
        """
        plan = self.path / "plan.toml"
        if plan.exists():
            self._require_data(recipes.parse(plan.read_text(encoding="utf-8"), str(plan)), corpus)
        elif others := Run(self.path).other_files():
            raise RunError(
                f"{self.path} is not empty ({', '.join(others[:4])}) and no comparison; "
                "choose a new folder with --out"
            )
        for entrant in entrants:
            if self.recipe(entrant.name).exists():
                self._require_recipe(entrant, notify)
        asked = {entrant.name for entrant in entrants}
        there = {path.stem for path in self.path.glob("recipes/*.toml")}
        if left := sorted(there - asked):
            notify(f"not compared this time: {', '.join(left)}; what was trained of it is kept")
        if there and (new := sorted(asked - there)):
            notify(f"new in this comparison: {', '.join(new)}")
        self._write(entrants, data, corpus)

    def _require_data(self, plan: Mapping[str, Any], corpus: Corpus) -> None:
        if plan.get("format") != FORMAT:
            raise RunError(
                f"{self.path} has a plan of format {plan.get('format')!r}, this Saccade reads "
                f"{FORMAT}; compare into another folder with --out"
            )
        now = _digests(corpus)
        changed = [name for name in plan["splits"] | now if plan["splits"].get(name) != now[name]]
        if changed:
            raise RunError(
                f"{self.path} compares other data ({plan['data']}): {', '.join(changed)} differs; "
                "compare on this data in another folder, with --out"
            )

    def _require_recipe(self, entrant: Entrant, notify: Callable[[str], None]) -> None:
        before = flat(recipes.load(self.recipe(entrant.name)).table())
        now = flat(entrant.recipe.table())
        changed = sorted(k for k in before | now if before.get(k) != now.get(k))
        if fixed := [key for key in changed if key not in BUDGET]:
            raise RunError(
                f"{entrant.name} was another recipe when this comparison began: "
                f"{differences(fixed, before, now)}; give the new one another name "
                f"(NAME={entrant.name}), or compare into another folder with --out"
            )
        endless = float("inf")
        if any(now.get(key, endless) < before.get(key, endless) for key in changed):
            raise RunError(
                f"the budget of {entrant.name} was larger when this comparison began: "
                f"{differences(changed, before, now)}; compare with less in another folder, "
                "with --out"
            )
        if changed:
            notify(f"{entrant.name} goes on: {differences(changed, before, now)}")

    def _write(self, entrants: Sequence[Entrant], data: str, corpus: Corpus) -> None:
        import tomlkit

        with disk_errors(self.path, "what was compared before is kept"):
            (self.path / "recipes").mkdir(exist_ok=True)
            plan = {"format": FORMAT, "data": data, "splits": _digests(corpus)}
            write_file(self.path / "plan.toml", tomlkit.dumps(plan).encode())
            for entrant in entrants:
                write_file(self.recipe(entrant.name), entrant.recipe.to_toml().encode())


def _digests(corpus: Corpus) -> dict[str, str]:
    return {name: split.digest() for name, split in corpus.splits.items()}
