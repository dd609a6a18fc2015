"""Towers, heads and dual models."""
