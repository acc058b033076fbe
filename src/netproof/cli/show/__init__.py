"""What is shown: results, progress, summaries, pictures."""
