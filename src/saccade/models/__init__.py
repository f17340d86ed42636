"""Models, assembled from encoders, decoders and heads.

    Translator(source, target, source_mask=None) → logits          text → text
    Captioner(image, target) → logits                              image → text
    TextClassifier(tokens, mask=None, segments=None) → logits      text → label
    Tagger(tokens, mask=None, segments=None) → logits              text → one label per token
    TextEncoder(tokens, mask=None, segments=None) → states         text → vectors
    MaskedLanguageModel(tokens, mask=None, segments=None) → logits text with masked tokens → text
    LanguageModel(tokens) → logits                                 text → next tokens
    ImageClassifier(image) → logits                                image → label
    ImageEncoder(image) → states                                   image → vectors
    AttentionPooling(memory) → vectors                             states → one vector
    VectorClassifier(vectors, mask=None) → logits                  vectors → label
    VectorCaptioner(vectors, target, mask=None) → logits           vectors → text
    Transformer(source, target, source_mask=None) → vectors        vectors → vectors

Every model is built by its options, such as `TranslatorConfig.build`, or from modules of your own.
"""

from saccade.models.captioner import Captioner, CaptionerConfig
from saccade.models.image_classifier import (
    ConvolutionalClassifierConfig,
    ImageClassifier,
    ImageClassifierConfig,
    ImageEncoder,
)
from saccade.models.language_models import (
    LanguageModel,
    LanguageModelConfig,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
)
from saccade.models.pooling import AttentionPooling, AttentionPoolingConfig, PoolingOptions
from saccade.models.text_classifier import (
    Tagger,
    TaggerConfig,
    TextClassifier,
    TextClassifierConfig,
    TextEncoder,
    TextEncoderConfig,
    TextReaderConfig,
)
from saccade.models.transformer import Transformer
from saccade.models.translator import Translator, TranslatorConfig
from saccade.models.vector_models import (
    VectorCaptioner,
    VectorCaptionerConfig,
    VectorClassifier,
    VectorClassifierConfig,
)

__all__ = [
    "AttentionPooling",
    "AttentionPoolingConfig",
    "Captioner",
    "CaptionerConfig",
    "ConvolutionalClassifierConfig",
    "ImageClassifier",
    "ImageClassifierConfig",
    "ImageEncoder",
    "LanguageModel",
    "LanguageModelConfig",
    "MaskedLanguageModel",
    "MaskedLanguageModelConfig",
    "PoolingOptions",
    "Tagger",
    "TaggerConfig",
    "TextClassifier",
    "TextClassifierConfig",
    "TextEncoder",
    "TextEncoderConfig",
    "TextReaderConfig",
    "Transformer",
    "Translator",
    "TranslatorConfig",
    "VectorCaptioner",
    "VectorCaptionerConfig",
    "VectorClassifier",
    "VectorClassifierConfig",
]
