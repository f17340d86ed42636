"""Routes of the server: one module per API shape, each with a router for the served models."""
