"""Inspection: sessions, their messages, and recall traces."""
