"""Folders as Hugging Face's transformers keeps them: `config.json` beside `model.safetensors`.

    model = huggingface.load("all-MiniLM-L6-v2")       # one of saccade.models, in eval mode
    huggingface.save(model, "copy")                    # a folder that transformers reads
    huggingface.describe("opus-mt-en-de")              # its class, our options of it, its labels
    huggingface.read_config("opus-mt-en-de")           # what else it says, such as token ids

The first of its `architectures` decides what a folder becomes:

    BertModel                        TextEncoder           (also where none is named)
    BertForSequenceClassification    TextClassifier
    BertForTokenClassification       Tagger
    BertForMaskedLM                  MaskedLanguageModel
    BertForPreTraining               MaskedLanguageModel   (without the head for next sentences)
    GPT2LMHeadModel                  LanguageModel
    ViTModel                         ImageEncoder          (also where none is named)
    ViTForImageClassification        ImageClassifier
    MarianMTModel                    Translator

`exchange` has the three verbs, `folder` the files, `names` the map between their tensors and ours,
`structure` what is compared before writing. `reading` makes a whole task of a folder, `writing` a
folder of a task, both with its `vocabulary`. Each family has a file: what its config.json says, the
model that means, and the names of its tensors, once for both directions. To add a family write
such a file and put it into `exchange.FAMILIES`.
"""

from saccade.interop.huggingface.folder import read_config
from saccade.interop.huggingface.load_save import Described, describe, load, save

__all__ = ["Described", "describe", "load", "read_config", "save"]
