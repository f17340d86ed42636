"""saccade accept: trust files of a run that were changed on purpose."""

from saccade.cli.options import RunFolder


def run(run_folder: RunFolder) -> None:
    """Accept changed weights and vocabularies of a run.

    Saccade does not load a run whose files differ from their SHA-256 in its MANIFEST.json. After
    you have changed such a file on purpose, accept writes a new MANIFEST.json.
    """
    from saccade.training.run import Run

    changed = Run(run_folder).accept()
    result = f"accepted {', '.join(changed)}" if changed else "no file has changed"
    print(f"{run_folder}: {result}")
