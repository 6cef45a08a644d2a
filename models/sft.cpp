// Chat fine-tuning of a Llama: whole chats packed into rows and kept apart, in a new order every
// epoch, with a loss on what the assistant says. `tools/nano-tokens encode --chat` makes the files,
// whose column mask marks that; `nanorun --init` starts from a trained model.
#include "models/llama.cpp"

NANO_DEFAULTS({"documents", "packed"}, {"shuffle_documents", "yes"}, {"document_mask", "yes"},
              {"loss_mask", "yes"}, {"block_size", 2048}, {"seq_len", 2048}, {"val_seq_len", 2048},
              {"global_batch", 131072}, {"num_iterations", 1000}, {"learning_rate", 2e-5},
              {"warmup_iters", 30}, {"final_lr_frac", 0.0}, {"weight_decay", 0.0});
