"""How a session is shown to people and to programs. The core imports nothing from here."""
