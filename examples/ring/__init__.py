"""What ring_attention.py needs beside its subject: the clock, the processes, the table of several GPUs."""
