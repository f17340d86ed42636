"""The output folder of a comparison: its layout, and the checks before it is resumed.

compare.html  compare.json     results
attention.html                 attention of the models, if it does not fit into compare.html
plan.toml  recipes/NAME.toml   the recipes and the data that are compared
runs/NAME-SEED/                ordinary run folders
measured/NAME-SEED/            measurements of each training
.join/                         leases of processes that work together, see `joining`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from saccade.compare.entrants import Entrant
from saccade.data.corpus import Corpus
from saccade.data.validation_split import HASH, STRATIFIED
from saccade.errors import RunError
from saccade.files import disk_errors, write_file
from saccade.training import recipe as recipes
from saccade.training.recipe import flat
from saccade.training.run import Run, differences

FORMAT = 1
PAGE, ATTENTION = "compare.html", "attention.html"
BUDGET = ("training.max_steps", "training.minutes")


@dataclass(frozen=True)
class ComparisonFolder:
    """The output folder of a comparison."""

    path: Path

    @property
    def json(self) -> Path:
        """The file with all results, for programs."""
        return self.path / "compare.json"

    def recipe(self, name: str) -> Path:
        """Return the path of an entrant's recipe, in which every key is written out."""
        return self.path / "recipes" / f"{name}.toml"

    def run(self, name: str, seed: int) -> Path:
        """Return the run folder of a training run."""
        return self.path / "runs" / f"{name}-{seed}"

    def measured(self, name: str, seed: int) -> Path:
        """Return the folder of a training run's measurements."""
        return self.path / "measured" / f"{name}-{seed}"

    def split_rule(self) -> str:
        """Return the rule by which rows are held out: that of the plan, if there is one."""
        plan = self.path / "plan.toml"
        if not plan.exists():
            return STRATIFIED
        table = recipes.parse(plan.read_text(encoding="utf-8"), str(plan))
        return str(table.get("split_rule", HASH))

    def write_pages(self, pages: Mapping[str, str]) -> None:
        """Write pages by name, and remove pages of an earlier call that are not among them."""
        for name in (PAGE, ATTENTION):
            if name in pages:
                write_file(self.path / name, pages[name].encode(), "all training runs are kept")
            else:
                (self.path / name).unlink(missing_ok=True)

    def locked(self, wait: float = 0.0) -> AbstractContextManager[None]:
        """Reserve the folder for this process, if it is free within `wait` seconds."""
        return Run(self.path).locked(wait)

    def require_resumable(
        self, entrants: Sequence[Entrant], corpus: Corpus, notify: Callable[[str], None]
    ) -> None:
        """Raise unless the folder is new or holds a comparison that this one resumes or extends.

        More recipes, more seeds and a larger budget than before are reported by `notify`.

        Raises:
            RunError: If the folder belongs to something else, or compares other data, another
                recipe under the same name, or the same recipe with a larger budget.
        """
        plan = self.path / "plan.toml"
        if plan.exists():
            self._require_same_data(plan, corpus)
        elif others := Run(self.path).other_files():
            raise RunError(
                f"{self.path} is not empty ({', '.join(others[:4])}) and not a comparison; "
                "choose a new folder with --out"
            )
        for entrant in entrants:
            if self.recipe(entrant.name).exists():
                self._require_same_recipe(entrant, notify)
        names = {entrant.name for entrant in entrants}
        before = {path.stem for path in self.path.glob("recipes/*.toml")}
        if left_out := sorted(before - names):
            notify(f"not compared this time: {', '.join(left_out)}; their training runs are kept")
        if before and (new := sorted(names - before)):
            notify(f"new in this comparison: {', '.join(new)}")

    def _require_same_data(self, path: Path, corpus: Corpus) -> None:
        plan = recipes.parse(path.read_text(encoding="utf-8"), str(path))
        if plan.get("format") != FORMAT:
            raise RunError(
                f"{path} has format {plan.get('format')!r}, this version of Saccade reads "
                f"{FORMAT}; choose another folder with --out"
            )
        now = _digests(corpus)
        changed = [name for name in plan["splits"] | now if plan["splits"].get(name) != now[name]]
        if changed:
            raise RunError(
                f"{self.path} compares other data ({plan['data']}): {', '.join(changed)} "
                f"{'differs' if len(changed) == 1 else 'differ'}; choose another folder for this "
                "data with --out"
            )

    def _require_same_recipe(self, entrant: Entrant, notify: Callable[[str], None]) -> None:
        before = flat(recipes.load(self.recipe(entrant.name)).table())
        now = flat(entrant.recipe.table())
        changed = sorted(k for k in before | now if before.get(k) != now.get(k))
        if fixed := [key for key in changed if key not in BUDGET]:
            raise RunError(
                f"{entrant.name} was another recipe when this comparison began: "
                f"{differences(fixed, before, now)}; give the new one another name "
                f"(NAME={entrant.name}), or choose another folder with --out"
            )
        unlimited = float("inf")
        if any(now.get(key, unlimited) < before.get(key, unlimited) for key in changed):
            raise RunError(
                f"the budget of {entrant.name} was larger when this comparison began: "
                f"{differences(changed, before, now)}; keep the larger one, or choose another "
                "folder with --out"
            )
        if changed:
            notify(f"resuming {entrant.name}: {differences(changed, before, now)}")

    def write_plan(self, entrants: Sequence[Entrant], data: str, corpus: Corpus) -> None:
        """Write the recipes and the digests of the data, by which a later call is checked."""
        import tomlkit

        kept = "the comparison so far is kept"
        with disk_errors(self.path, kept):
            (self.path / "recipes").mkdir(exist_ok=True)
        plan = {
            "format": FORMAT,
            "data": data,
            "split_rule": self.split_rule(),
            "splits": _digests(corpus),
        }
        write_file(self.path / "plan.toml", tomlkit.dumps(plan).encode(), kept)
        for entrant in entrants:
            write_file(self.recipe(entrant.name), entrant.recipe.to_toml().encode(), kept)


def _digests(corpus: Corpus) -> dict[str, str]:
    return {name: split.digest() for name, split in corpus.splits.items()}
