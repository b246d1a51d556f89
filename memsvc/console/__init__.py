"""The console: web pages by which people see what their agents remember.

Whatever a page shows or does is a call of a tool, permitted, logged and counted like any other.
"""
