"""What is asked about a model beside running it: is it right, what are its kernels, what is its header in C?"""
