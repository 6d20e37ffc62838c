"""The parts of generated C that targets share."""
