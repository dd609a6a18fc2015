"""Recipes: functions that return a RunConfig."""
