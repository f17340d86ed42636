"""Measures of how far attention can be trusted.

erasure    comprehensiveness and sufficiency
heads      entropy and Jensen-Shannon divergence of heads, and ablation of a head
pointing   the pointing game over images
"""
