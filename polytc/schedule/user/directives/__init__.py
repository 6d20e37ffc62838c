"""What a user may ask of a schedule: functions from loop nest to loop nest, one idea a file. None knows of dependences."""
