"""What is asked: properties, input sets, and their reduction to problems a search can take."""
