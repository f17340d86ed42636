"""Decoders: tokens and a Memory → logits, all at once in training, one step at a time later.

    transformer   causal self-attention, with or without cross-attention to a memory
    recurrent     RNN, GRU or LSTM: one context for all steps, or attention before or after each
    stack         the layers of the Transformer decoder
    fast_path     one step of a plain Transformer decoder in as few operations as possible

Each has `forward(target, memory)`, `hidden(target, memory)` (the states before the output
projection), and `start(memory)`, `step(tokens, state)` and `select(state, rows)` of a `Stepper`.
"""
