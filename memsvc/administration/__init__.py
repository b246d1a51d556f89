"""The affairs of a tenant beside its memory: what it holds, what it may, what was asked, how it leaves."""
