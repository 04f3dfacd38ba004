"""Regression check: is a task's score below its baseline by more than the noise of seeds?

All functions are pure.
"""
