"""Evaluation: retrieval by named protocols, classification, and what the numbers are worth."""
