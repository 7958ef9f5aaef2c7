"""How risky an action is."""
