"""How the agent thinks and acts; read `loop.py` first."""
