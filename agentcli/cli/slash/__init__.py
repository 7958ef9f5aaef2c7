"""Commands typed with `/` in a conversation: each file defines one, as SLASH_COMMAND."""
