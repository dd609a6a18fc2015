"""Questions to a folder of sounds: an exact scan over cached windows."""
