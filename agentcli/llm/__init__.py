"""Reaching models."""
