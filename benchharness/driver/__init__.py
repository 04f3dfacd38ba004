"""Planning, scheduling and running of jobs, from the user's request to stored results.

These modules do not import torch.
"""
