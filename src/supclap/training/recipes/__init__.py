"""Recipes that ship with the package: each a function that returns a RunConfig."""
