"""What a schedule changes of the program itself: each change is a value with a text, and a function from program to program
that keeps the meaning, so that legality stays a question of dependences."""
