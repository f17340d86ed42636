"""Every kind of model, built in a few lines each, with a table of its parts.

    python examples/which_parts.py

Prints the parts of each model with their parameters, and runs it once to show the shapes of its
inputs and outputs. The models are small; the same classes take the widths of larger ones.
"""

import torch
from torch import nn

from saccade.attention import AdditiveConfig, GeneralConfig
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.encoders.convolutional import GridEncoder, ResNet, ResNetConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.models import (
    CaptionerConfig,
    ImageClassifier,
    ImageClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    Tagger,
    TextClassifierConfig,
    Transformer,
    TranslatorConfig,
)
from saccade.positions import LearnedConfig

VOCABULARY, CLASSES = 1000, 5

encoder = TransformerEncoderConfig(num_layers=3, num_heads=8, hidden_dim=512)
decoder = TransformerDecoderConfig(num_layers=3, num_heads=8, hidden_dim=512)
recurrent = RecurrentEncoderConfig(cell="gru", dim=128)


def models() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Return each model with inputs for it."""
    text, written = torch.randint(0, VOCABULARY, (2, 9)), torch.randint(0, VOCABULARY, (2, 7))
    image = torch.randn(2, 3, 32, 32)
    luong = RecurrentDecoderConfig(attention="after", cell="lstm", score=GeneralConfig())
    vit = TransformerEncoderConfig(
        num_layers=3,
        num_heads=4,
        hidden_dim=384,
        activation="gelu",
        position=LearnedConfig(grid=(8, 8)),
    )
    plain = RecurrentDecoderConfig(attention="none")
    bahdanau = RecurrentDecoderConfig(attention="before", score=AdditiveConfig())
    bert = TextClassifierConfig(encoder=encoder, dim=256, num_segments=2)

    def translator(reader: object, writer: object) -> nn.Module:
        config = TranslatorConfig(encoder=reader, decoder=writer, dim=256)  # type: ignore[arg-type]
        return config.build(VOCABULARY, VOCABULARY)

    def captioner(writer: object) -> nn.Module:
        reader = ResNetConfig(dim=256)
        config = CaptionerConfig(encoder=reader, decoder=writer, dim=256)  # type: ignore[arg-type]
        return config.build(VOCABULARY)

    return {
        "RNN encoder-decoder": (translator(recurrent, plain), (text, written)),
        "RNN with attention (Bahdanau)": (translator(recurrent, bahdanau), (text, written)),
        "LSTM with attention (Luong)": (translator(recurrent, luong), (text, written)),
        "Transformer translator": (translator(encoder, decoder), (text, written)),
        "Transformer over vectors": (
            Transformer(),
            (torch.randn(1, 5, 512), torch.randn(1, 3, 512)),
        ),
        "Text classifier (BERT-like)": (bert.build(VOCABULARY, CLASSES), (text,)),
        "Text classifier (RNN)": (
            TextClassifierConfig(encoder=recurrent, dim=256, pooling="summary", pooler=False).build(
                VOCABULARY, CLASSES
            ),
            (text,),
        ),
        "Tagger": (
            Tagger(bert.build(VOCABULARY, CLASSES).encoder, nn.Linear(256, CLASSES)),
            (text,),
        ),
        "Masked language model": (
            MaskedLanguageModelConfig(encoder=encoder, dim=256).build(VOCABULARY),
            (text,),
        ),
        "Language model (GPT-like)": (
            LanguageModelConfig(decoder=decoder, dim=256).build(VOCABULARY),
            (text,),
        ),
        "Image classifier (ViT)": (
            ImageClassifierConfig(encoder=vit, dim=192, patch_size=4).build(CLASSES),
            (image,),
        ),
        "Image classifier (CNN)": (
            ImageClassifier(GridEncoder(ResNet()), nn.Linear(128, CLASSES), pooling="summary"),
            (image,),
        ),
        "Captioner (RNN)": (captioner(plain), (image, written)),
        "Captioner (RNN with attention)": (captioner(bahdanau), (image, written)),
        "Captioner (Transformer)": (captioner(decoder), (image, written)),
    }


def table(model: nn.Module) -> list[tuple[str, int]]:
    """Return the parts of a model and their parameters; shared ones count at their first part."""
    seen: set[int] = set()
    rows: dict[str, int] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part = ".".join(name.split(".")[:2])
        rows.setdefault(part, 0)
        if id(parameter) not in seen:
            rows[part] += parameter.numel()
            seen.add(id(parameter))
    return list(rows.items())


def main() -> None:
    for name, (model, inputs) in models().items():
        model.eval()
        with torch.no_grad():
            out = model(*inputs)
        total = sum(p.numel() for p in model.parameters())
        shapes = " and ".join(str(tuple(x.shape)) for x in inputs)
        print(f"\n{name}: {total:,} parameters; {shapes} -> {tuple(out.shape)}")
        for part, count in table(model):
            print(f"    {part:<32}{count:>14,}" + ("   (shared)" if count == 0 else ""))


if __name__ == "__main__":
    main()
