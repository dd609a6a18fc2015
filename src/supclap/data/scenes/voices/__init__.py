"""How each everyday sound is made."""
