"""What is kept between processes, in a folder that only its user can have written."""
