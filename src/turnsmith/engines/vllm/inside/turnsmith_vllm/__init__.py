"""vLLM server that receives weights from Turnsmith."""
