"""The life of a worker that was started afresh: `python -m netproof.workers DESCRIPTOR`."""

import sys
from multiprocessing.connection import Connection

from netproof.workers.worker import Worker

Worker(Connection(int(sys.argv[1]))).live()
