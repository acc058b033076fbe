"""Many instances, several methods: read them, run them in worker processes, keep the results.

Nothing here imports torch but the worker, which is a process of its own.
"""
