"""What the user is asked at the terminal before work begins: trust, folders, the first model."""
