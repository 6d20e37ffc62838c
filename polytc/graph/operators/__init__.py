"""ONNX's operators: texts of the language (.ein), and a row for each that binds it to a node (table.py)."""
