"""What this process may take of the machine that it runs on: control groups, memory, and limits of its own."""
