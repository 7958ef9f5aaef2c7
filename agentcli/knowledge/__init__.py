"""What the model is told besides the conversation: instructions, skills, notes, facts."""
