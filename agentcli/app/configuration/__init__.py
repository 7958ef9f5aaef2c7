"""Settings: loaded in layers, judged by trust, changed in their files."""
