"""What holds in a released version of vLLM, read in its source: `make verify-vllm`."""
