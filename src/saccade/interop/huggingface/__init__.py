"""Folders as Hugging Face's transformers saves them: `config.json` and `model.safetensors`.

    model = huggingface.load("all-MiniLM-L6-v2")       # one of saccade.models, in eval mode
    huggingface.save(model, "copy")                    # a folder that transformers reads
    huggingface.describe("opus-mt-en-de")              # its class, our options for it, its labels
    huggingface.read_config("opus-mt-en-de")           # all keys of config.json, with token ids

The first of its `architectures` decides which model a folder becomes:

    BertModel                        TextEncoder           (also if none is named)
    BertForSequenceClassification    TextClassifier
    BertForTokenClassification       Tagger
    BertForMaskedLM                  MaskedLanguageModel
    BertForPreTraining               MaskedLanguageModel   (without next-sentence prediction)
    GPT2LMHeadModel                  LanguageModel
    ViTModel                         ImageEncoder          (also if none is named)
    ViTForImageClassification        ImageClassifier
    MarianMTModel                    Translator
    LlamaForCausalLM                 LanguageModel
    T5ForConditionalGeneration       Translator

RoBERTa, XLM-RoBERTa, DistilBERT and ELECTRA have the classes of BERT, DeiT those of ViT.

families         one file per `model_type`: its keys, its models and the names of its tensors
load_save        load, save, describe
task_import      a task from a folder: the model with its vocabulary and labels
task_export      a folder from a task
folder           the files
config_json      types and checks of keys
tensor_map       the map between tensors of a file and our parameters
recipe_changes   the fewest changes to options that make a model representable
model_diff       comparison of a model with the one that a format describes
model_rewrites   equivalent models, built as a format has them
vocabulary       tokenizer.json and tokenizer_config.json
"""

from saccade.interop.huggingface.folder import read_config
from saccade.interop.huggingface.load_save import (
    Described,
    FolderDescription,
    describe,
    load,
    save,
)

__all__ = ["Described", "FolderDescription", "describe", "load", "read_config", "save"]
