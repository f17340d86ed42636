"""Layers that encoders and decoders share.

block           options of Transformer blocks
feed_forward    the feed-forward network of a block, plain or gated
residual        residual connection with norm, dropout and stochastic depth
norms           layer, RMS and batch norm
embeddings      token embedding and output projection
recurrent       RNN, GRU and LSTM
cross_entropy   cross-entropy over a vocabulary in little memory
dropout         dropout that is fast on a CPU
activations     activation functions by name
"""
