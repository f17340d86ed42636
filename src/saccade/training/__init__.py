"""Training: from a recipe and data to a run folder that a crash cannot damage.

session       train, load, evaluate: from a recipe's name to a trained task, and back from a run
recipe        all options in one TOML file
choice        the recipe that suits data, if none is named
adapt         recipes that adapt to the size of the data and to the budget
speed         the time that an update takes, by which minutes become updates
upgrade       recipes of earlier formats
loop          the training loop, on one screen
progress      the progress of training, and its measurements
optim         AdamW, learning rates over time, averages of weights
precision     devices, and precisions that work on this machine; `trial` tries them
distributed   several processes that train one model
interruption  Ctrl-C and SIGTERM
run           the run folder: its files, its lock, and whether a resumed training fits it
warm_start    weights and vocabularies of another model to start from
checkpoint    everything to resume from a step, complete or not there
manifest      sizes and SHA-256 of a run's files, by which damage is detected
tensor_files  safetensors files, written and read one tensor after another
outline       models without memory, to be compared with the weights first
metric_log    measurements, to metrics.jsonl and TensorBoard
console       messages and progress bars
report        the numbers of report.html
summary       what a run is, its scores, its baselines and its cost
"""
