"""The example that builds every kind of model (J6)."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "which_parts.py"


def test_every_model_is_built_and_its_table_sums_to_its_parameters(capsys):
    """The parts of every model (J6)."""
    names = runpy.run_path(str(EXAMPLE))
    built = names["models"]()
    assert len(built) == 15
    for model, _ in built.values():
        total = sum(p.numel() for p in model.parameters())
        assert sum(count for _, count in names["table"](model)) == total
    names["main"]()
    printed = capsys.readouterr().out
    assert "Transformer over vectors: 44,140,544 parameters" in printed
    assert all(name in printed for name in built)
