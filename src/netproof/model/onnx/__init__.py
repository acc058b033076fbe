"""From ONNX files to graphs."""
