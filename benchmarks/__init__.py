"""Measurements of this project."""
