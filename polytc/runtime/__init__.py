"""Arrays in and out, threads, machine code in memory, devices."""
