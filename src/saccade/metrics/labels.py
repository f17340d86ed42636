"""Names and values of metrics, as pages show them."""

LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "cider": "CIDEr", "rouge_l": "ROUGE-L"}
PERCENTAGES = {
    "accuracy",
    "balanced_accuracy",
    "exact_match",
    "expected_calibration_error",
    "f1",
    "macro_f1",
    "micro_f1",
    "phoneme_error_rate",
    "span_f1",
    "word_error_rate",
}
"""Metrics that are fractions, shown in per cent."""


def metric_label(name: str) -> str:
    """Return a metric's name for people: "BLEU", "exact match"."""
    return LABELS.get(name, name.replace("_", " "))


def in_points(name: str) -> bool:
    """Return whether a metric goes from 0 to 100, as BLEU does, and is shown with one decimal."""
    return (name in LABELS and name not in {"cider", "rouge_l"}) or name.startswith("bleu_")


def metric_text(name: str, value: float) -> str:
    """Return the value of a metric for people.

    BLEU and similar scores from 0 to 100 have one decimal, fractions are in per cent, and all
    others have three significant digits.

    >>> metric_text("bleu", 31.4159), metric_text("accuracy", 0.912), metric_text("loss", 2.3456)
    ('31.4', '91.2 %', '2.35')
    """
    if name in PERCENTAGES:
        return f"{100 * value:.1f} %"
    if in_points(name):
        return f"{value:.1f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def metric_unit(name: str) -> float:
    """Return the factor by which charts multiply a metric: 100 for what is shown in per cent."""
    return 100.0 if name in PERCENTAGES else 1.0


def metric_axis(name: str) -> str:
    """Return a metric's name beside an axis, with its unit."""
    return f"{metric_label(name)} (%)" if name in PERCENTAGES else metric_label(name)
