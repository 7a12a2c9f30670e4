"""The HTTP face: one module a group of endpoints."""
