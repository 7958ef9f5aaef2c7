"""What a session is told beside its conversation: instructions, skills, notes, facts."""
