"""The built-in recipes: TOML files that `saccade.training.recipe` reads."""
