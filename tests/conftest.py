"""What holds for all tests."""

import os

# Two test processes with a thread for each core wait for each other most of the time. Set before
# torch is imported, which reads it then; processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
