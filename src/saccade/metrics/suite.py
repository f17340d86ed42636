"""The metrics of a task that generates text, chosen in its recipe."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from saccade.config import Conflict, without_effect
from saccade.errors import MetricError
from saccade.metrics.brackets import bracket_f1_tally
from saccade.metrics.captions import (
    bleu_1_tally,
    bleu_2_tally,
    bleu_3_tally,
    bleu_4_tally,
    cider_tally,
    rouge_l_tally,
)
from saccade.metrics.error_rates import (
    character_error_rate_tally,
    exact_match_tally,
    phoneme_error_rate_tally,
    word_edit_rate_tally,
    word_error_rate_tally,
)
from saccade.metrics.resample import SAMPLES, SEED
from saccade.metrics.score import (
    Tally,
    require_items,
    require_names,
    require_resampling,
)
from saccade.metrics.text import Tokenize, bleu_tally, chrf_tally, ter_tally

TextMetric = Literal[
    "bleu",
    "chrf",
    "ter",
    "exact_match",
    "character_error_rate",
    "word_error_rate",
    "phoneme_error_rate",
    "word_edit_rate",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "bleu_4",
    "cider",
    "rouge_l",
    "bracket_f1",
]
USERS = {
    "tokenize": ("bleu",),
    "lowercase": ("bleu", "chrf", "exact_match", "character_error_rate", "word_edit_rate"),
    "stress": ("word_error_rate", "phoneme_error_rate"),
}
"""The metrics that use each option."""
TOKENISED_ENDS = (" .", " !", " ?")
FEWEST_TEXTS = 20
"""Ends of texts whose words were split, and the fewest texts to judge by."""
_TallyOf = Callable[[Sequence[str], Sequence[Sequence[str]]], Tally]


@dataclass(frozen=True, kw_only=True)
class TextMetricsConfig:
    """The metrics of generated text.

    names       metrics to report; the first selects the best weights. bracket_f1 is for outputs
                that are trees, such as (S (NP (D the) (N dog)) (VP (V sleeps)))
    tokenize    tokenizer of sacreBLEU for bleu: 13a for most languages, zh for Chinese, char for
                characters, none for text that is tokenised already
    lowercase   ignore case in bleu, chrf, exact_match, character_error_rate and word_edit_rate.
                ter and the metrics of captions always do, those of phonemes never
    stress      count stress in word_error_rate and phoneme_error_rate; if false, AH0 equals AH
    samples     number of resamples per confidence interval; 0 leaves the intervals out
    seed        seed of the resamples
    """

    names: tuple[TextMetric, ...] = ("bleu", "chrf")
    tokenize: Tokenize = "13a"
    lowercase: bool = False
    stress: bool = True
    samples: int = SAMPLES
    seed: int = SEED

    def __post_init__(self) -> None:
        require_names(self.names, get_args(TextMetric))
        require_resampling(self.samples, self.seed)
        if self.tokenize not in get_args(Tokenize):
            allowed = ", ".join(get_args(Tokenize))
            raise MetricError(f"tokenize must be one of {allowed}; got {self.tokenize!r}")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options of metrics that are not reported."""
        for option, metrics in USERS.items():
            if not set(metrics) & set(self.names):
                reason = f"unless names contains one of {', '.join(metrics)}"
                yield from without_effect(self, [option], reason)

    def tally(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, Tally]:
        """Return the tally of each metric."""
        require_items(predictions, references)
        tallies = self._tallies()
        return {name: tallies[name](predictions, references) for name in self.names}

    def remarks(self, references: Sequence[Sequence[str]]) -> list[str]:
        """Return a remark if BLEU splits texts into words that are split already."""
        if "bleu" not in self.names or self.tokenize == "none":
            return []
        ends = [texts[0].endswith(TOKENISED_ENDS) for texts in references if texts]
        if len(ends) < FEWEST_TEXTS or sum(ends) * 2 < len(ends):
            return []
        return [
            "the texts look tokenised, since a space precedes their last punctuation mark; their "
            'usual BLEU is that of --set metrics.tokenize="none", set when training'
        ]

    def _tallies(self) -> Mapping[str, _TallyOf]:
        def cased(tally: Callable[..., Tally]) -> _TallyOf:
            return lambda predictions, refs: tally(predictions, refs, lowercase=self.lowercase)

        def stressed(tally: Callable[..., Tally]) -> _TallyOf:
            return lambda predictions, refs: tally(predictions, refs, stress=self.stress)

        return {
            "bleu": lambda predictions, refs: bleu_tally(
                predictions, refs, tokenize=self.tokenize, lowercase=self.lowercase
            ),
            "chrf": cased(chrf_tally),
            "ter": ter_tally,
            "exact_match": cased(exact_match_tally),
            "character_error_rate": cased(character_error_rate_tally),
            "word_edit_rate": cased(word_edit_rate_tally),
            "word_error_rate": stressed(word_error_rate_tally),
            "phoneme_error_rate": stressed(phoneme_error_rate_tally),
            "bleu_1": bleu_1_tally,
            "bleu_2": bleu_2_tally,
            "bleu_3": bleu_3_tally,
            "bleu_4": bleu_4_tally,
            "cider": cider_tally,
            "rouge_l": rouge_l_tally,
            "bracket_f1": bracket_f1_tally,
        }
