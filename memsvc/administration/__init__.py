"""Administration of a tenant: keys, limits, usage, calls, jobs, exports and purges."""
