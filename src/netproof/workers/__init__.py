"""Processes that compute, and the one protocol that they are spoken to in.

`process` is the near end, which starts and ends a worker; `worker` the far end, which computes. Neither imports torch.
"""
