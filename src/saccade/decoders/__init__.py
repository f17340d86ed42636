"""Writers: tokens and a Memory -> logits, all at once in training, one step in generation.

transformer   causal self-attention, with or without cross-attention to a memory
recurrent     RNN, GRU or LSTM: one context for all steps, or attention before or after each step

Each has `forward(target, memory)`, `hidden(target, memory)` (what comes before `output`), and the
Stepper's `start(memory)`, `step(tokens, state)` and `select(state, rows)`.
"""
