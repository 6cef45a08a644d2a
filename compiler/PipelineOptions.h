// The options of the pipeline, which the driver and nanoc's command line share. Pipeline.cpp says
// which pass gets which.
#pragma once

#include <cstdint>
#include <string>

namespace nano {

/// What passes are told about the target and the run: what the command line asks for, and what the
/// driver finds out.
struct PipelineOptions {
  int64_t world = 1;          ///< the number of ranks that run the program
  std::string target = "cpu"; ///< "cpu" or "cuda"
  /// A known name or a JSON file, by whose rates times are estimated, of schedules and of products;
  /// empty: h100-infiniband for cuda, cpu for cpu.
  std::string machine = {};
  std::string times = {};         ///< a file of nanorun --times, for the schedule; empty: none
  int64_t bucketBytes = 25 << 20; ///< the most bytes that a bucket of collectives holds; 0: no
                                  ///< buckets
  int64_t saveBytes = 0;  ///< held less at the price of products that the backward pass repeats
  int64_t chunkBytes = 0; ///< largest tensor of the head in a chunk of rows; 0: by the plan's peak
  std::string products = "auto"; ///< cuda: which products generated kernels compute, as
                                 ///< nano-fuse-products says
  bool candidates = false;       ///< cuda: also kernels that nanorun --tune measures
  int64_t lanes = 16;            ///< CPU: f32 lanes of its vectors
  bool kMajor = false;    ///< its 8-bit products take only operands with the inner dimension last
  bool decode = true;     ///< a program of the next token's logits beside that of all
  bool reports = false;   ///< the model's reports, or norms of its updates, are part of programs
  bool reportFp8 = false; ///< a remark on every 8-bit conversion that is a kernel of its own
  int64_t reportNext = 0; ///< remarks on so many values that would be made again next to hold less
  bool reportDetails = false; ///< what passes decided for each product, chain and kept value
  bool reportUpdates = false; ///< a remark on how each parameter is updated
  bool reportIndices = false; ///< a remark on every index that is proven to lie in its table
};

} // namespace nano
