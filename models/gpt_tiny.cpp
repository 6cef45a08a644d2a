// gpt124m at a size that trains on two CPU cores in about two minutes, on bytes: token 256 begins a
// document.
#include "models/gpt124m.cpp"

NANO_DEFAULTS({"vocab_size", 257}, {"eos_token", 256}, {"num_layers", 6}, {"num_heads", 3},
              {"head_dim", 64}, {"model_dim", 192}, {"seq_len", 1024}, {"val_seq_len", 1024},
              {"global_batch", 4096}, {"num_iterations", 250}, {"dtype", "f32"});
