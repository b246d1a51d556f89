"""Functions behind the pages: each reads or changes something by tools and shows it."""
