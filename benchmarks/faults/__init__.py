"""What the service does when things go wrong: each part breaks something on purpose and counts what
came of it."""
