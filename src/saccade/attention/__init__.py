"""Attention: queries read a set of vectors, weighted by how well each fits.

scores      how well a query fits a key
masks       which keys a query may see
attend      scores → weights → context, the only place where attention weights exist
projection  the learned maps from inputs to queries, keys and values
multihead   several attentions in parallel
layer       one attention with its own keys and values, for any queries
cache       keys and values kept between the steps of generation
watch       record the exact weights of every attention below a module
intercept   the weights of modules that are not ours, for watch
"""

from saccade.attention import masks
from saccade.attention.attend import Attend, Prepared
from saccade.attention.cache import KeyValueCache, Projected
from saccade.attention.layer import AttentionLayer
from saccade.attention.multihead import MultiHeadAttention
from saccade.attention.scores import (
    Additive,
    AdditiveConfig,
    Cosine,
    CosineConfig,
    Dot,
    DotConfig,
    Factor,
    FactoredScore,
    General,
    GeneralConfig,
    LowRank,
    LowRankConfig,
    ScaledDot,
    ScaledDotConfig,
    Score,
    ScoreConfig,
)

__all__ = [
    "Additive",
    "AdditiveConfig",
    "Attend",
    "AttentionLayer",
    "Cosine",
    "CosineConfig",
    "Dot",
    "DotConfig",
    "Factor",
    "FactoredScore",
    "General",
    "GeneralConfig",
    "KeyValueCache",
    "LowRank",
    "LowRankConfig",
    "MultiHeadAttention",
    "Prepared",
    "Projected",
    "ScaledDot",
    "ScaledDotConfig",
    "Score",
    "ScoreConfig",
    "masks",
]

Cache = KeyValueCache
"""Deprecated name of `KeyValueCache`."""
