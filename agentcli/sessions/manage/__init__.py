"""Managing sessions: names, owners, copies, repair, removal."""
