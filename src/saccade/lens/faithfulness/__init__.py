"""Measures of how far to believe attention.

erasure    comprehensiveness and sufficiency
heads      entropy, divergence and importance of heads
pointing   the pointing game over images
"""
