"""What all networks share: their weights, checked and loaded; ONNX files; the device they are on."""
