"""Processes that compute, and the one protocol for talking to them.

`process` is the near end, which starts and ends a worker; `worker` the far end, which computes. Neither imports torch.
"""
