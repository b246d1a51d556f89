"""Looking back: sessions, what was said in them, and what was recalled and why."""
