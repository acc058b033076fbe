"""What a network is: a typed graph, and the readers that make one from ONNX or torch."""
