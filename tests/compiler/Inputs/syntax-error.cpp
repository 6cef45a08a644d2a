#include "compiler/Frontend.h"
NANO_MODEL { nano::frontend::hyper("seq_len";
}
