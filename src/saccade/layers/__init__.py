"""What readers and writers share: norms, feed-forward, residual connections, embeddings, cells."""
