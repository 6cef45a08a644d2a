"""Text to token shards and back: what tools/nano-tokens is made of."""
