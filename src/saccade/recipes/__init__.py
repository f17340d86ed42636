"""The built-in recipes: TOML files, read by saccade.training.recipe."""
