"""What is asked about a model beside running it: is it right, and what are its kernels?"""
