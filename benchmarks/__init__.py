"""Measurements of this project: tables of accuracy, speed and memory."""
