"""Training: from a recipe and data to a run folder that nothing can damage.

recipe        all options in one TOML file
loop          the training loop, on one screen
optim         AdamW, learning rates over time, averages of weights
run           the run folder: what lies in it, who may write to it, what fits it
checkpoint    everything to go on from a step, whole or not there
manifest      sizes and SHA-256 of a run's files, by which damage is found
outline       models without memory, to be compared with the weights first
tensor_files  safetensors files, written and read one tensor after another
files         writing that a crash cannot tear
distributed   several processes on one model
machine       what the memory allocator should know
interruption  Ctrl-C and SIGTERM
track         measurements, to metrics.jsonl and TensorBoard
screen        progress, for people and for logs
report        report.html: curves and sample answers
session       the whole job, from a recipe's name to a trained task
"""
