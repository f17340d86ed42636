"""Other tools' formats.

ctranslate2    folders of translators and language models, written and run
huggingface    folders of bert, gpt2, vit and marian, read and written
onnx           graphs of every task, written, and run in onnxruntime
"""
