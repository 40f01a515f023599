"""What several labs need, once. tools/bundle.py puts what a program uses into the single file that readers get."""
