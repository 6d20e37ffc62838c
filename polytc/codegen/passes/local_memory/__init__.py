"""Tiles of work-groups in local memory: two copies in turn, registers for what comes next, storage that several share."""
