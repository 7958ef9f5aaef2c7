"""Rates how risky an action is."""
