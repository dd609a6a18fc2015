"""The embedded corpus: scenes of sound events, with captions and ground truth."""
