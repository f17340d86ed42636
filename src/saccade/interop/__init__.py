"""Formats of other tools.

ctranslate2    write and run folders of translators and language models
huggingface    read and write folders of bert, gpt2, vit and marian
onnx           write graphs of every task, and run them in onnxruntime
"""
