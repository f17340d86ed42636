"""Encoders: inputs of any kind → Memory(states (b, n, d), mask).

transformer     self-attention over tokens, patches or any vectors
recurrent       RNN, GRU or LSTM, in one or two directions
patches         images as sequences of patches (ViT)
convolutional   images as grids of features: a compact ResNet
efficientnet    images as grids of features: EfficientNet-Lite0, with its ImageNet weights
stems           from inputs to vectors with places
"""
