// What kernels keep to, and their launches: everything that a kernel takes for granted.
#include "runtime/plan/ElfSymbols.h"
#include "runtime/plan/Operands.h"
#include "runtime/plan/TensorMaps.h"
#include "runtime/plan/Validator.h"

#include <cmath>

namespace nano::plan {

void Validator::kernels() {
  std::unordered_set<std::string> names;
  for (const Kernel &kernel : plan.kernels) {
    named("kernel", kernel.name, names);
    check(kernel);
  }
  if (targetOf(plan.target).hasNativeCode)
    nativeKernels();
  else
    cudaKernels();
}

void Validator::check(const Kernel &kernel) const {
  for (double operations : {kernel.flops, kernel.flopsPerKey})
    require(std::isfinite(operations) && operations >= 0,
            "its number of operations is not finite, or negative");
  require(!isInteger(kernel.flopsType), "its operations are of integers, whose rate is not known");
  require(kernel.scratchBytes <= mostScratchBytes, "it needs more scratch memory than 1 TiB");
  require(!targetOf(plan.target).hasNativeCode ||
              (kernel.clusterBlocks == 1 && kernel.tensorMaps.empty()),
          "it has clusters or tensor maps, which are for target cuda only");
  int64_t before = -1;
  for (const Kernel::Reach &reach : kernel.reaches) {
    require(reach.iterations > before, "its reaches are not in the order of their iterations");
    before = reach.iterations;
    require(reach.bytes.size() == kernel.reaches.front().bytes.size(),
            "its reaches differ in their number of operands");
  }
}

void Validator::nativeKernels() {
  item = "the plan";
  require(plan.sources.empty(), "it has device code, which is for target cuda only");
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    require(kernel.source.empty(), "it names device code, which is for target cuda only");
  }
  if (plan.kernels.empty())
    return;
  item = "the plan";
  auto symbols = definedSymbols(plan.code);
  if (!symbols)
    fail(symbols.error().message);
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    auto function = symbols->find(kernel.name);
    require(function != symbols->end() && function->second.isFunction,
            "the native code does not define it");
    const std::string symbol = kernel.name + ".scratch";
    auto scratch = symbols->find(symbol);
    require(scratch != symbols->end() && scratch->second.isAbsolute,
            "the native code does not say how much scratch memory it uses");
    if (scratch->second.value > kernel.scratchBytes)
      fail("it has " + std::to_string(kernel.scratchBytes) + " bytes of scratch memory and uses " +
           std::to_string(scratch->second.value));
  }
}

void Validator::cudaKernels() {
  std::unordered_set<std::string> names;
  for (const Source &source : plan.sources) {
    named("source", source.name, names);
    require(source.name.find('/') == std::string::npos && source.name != "." && source.name != "..",
            "the name is not a plain file name");
  }
  item = "the plan";
  require(plan.code.empty(), "it has native code, which is for target cpu only");
  for (const Kernel &kernel : plan.kernels) {
    item = "kernel " + quoted(kernel.name);
    if (!names.count(kernel.source))
      fail("its source " + quoted(kernel.source) + " does not exist");
    require(kernel.threads >= 32 && kernel.threads <= 1024 && kernel.threads % 32 == 0,
            "the number of threads is not a multiple of 32 from 32 to 1024");
    require(kernel.iterationsPerBlock >= 1, "a block has no iteration");
    require(kernel.iterationsPerBlock <= INT32_MAX, "a block has more than 2147483647 iterations");
    require(kernel.sharedBytes <= maxSharedBytes, "it needs more shared memory than a block has");
    require(kernel.maxSegments >= 1, "it takes no segment");
    require(kernel.scratchBytes == 0, "it needs scratch memory, which is for target cpu only");
    require(kernel.clusterBlocks >= 1 && kernel.clusterBlocks <= mostClusterBlocks,
            "a cluster has not 1 to 8 blocks");
    require(kernel.tensorMaps.empty() || kernel.maxSegments == 1,
            "it has tensor maps and takes more than one segment");
    for (const TensorMap &map : kernel.tensorMaps)
      if (const char *rule = brokenRule(map))
        fail(std::string("a tensor map: ") + rule);
  }
}

void Validator::check(const Launch &launch) const {
  require(launch.kernel < plan.kernels.size(), "the kernel does not exist");
  require(!launch.segments.empty(), "it has no segment");
  for (const Launch::Segment &segment : launch.segments) {
    require(segment.iterations >= 0, "the number of iterations is negative");
    require(segment.grain >= 1, "the grain is below 1");
    for (const Ref &ref : segment.args)
      inside(ref, ref.bytes, "an operand");
    reaches(plan.kernels[launch.kernel], segment);
  }
  if (!targetOf(plan.target).hasNativeCode)
    cudaLaunch(launch);
}

/// The operands are as many as the kernel's, and each is as long as the kernel reaches.
void Validator::reaches(const Kernel &kernel, const Launch::Segment &segment) const {
  if (kernel.reaches.empty())
    fail("kernel " + quoted(kernel.name) + " does not say how far it reaches");
  const size_t operands = kernel.reaches.front().bytes.size();
  if (segment.args.size() != operands)
    fail("it has " + std::to_string(segment.args.size()) + " operands, kernel " +
         quoted(kernel.name) + " takes " + std::to_string(operands));
  const Kernel::Reach *reach = reachOf(kernel, segment.iterations);
  if (!reach)
    fail("it has " + std::to_string(segment.iterations) + " iterations, kernel " +
         quoted(kernel.name) + " at most " + std::to_string(kernel.reaches.back().iterations));
  for (size_t i = 0; i < operands; ++i)
    inside(segment.args[i], reach->bytes[i], "the reach of an operand");
}

void Validator::cudaLaunch(const Launch &launch) const {
  const Kernel &kernel = plan.kernels[launch.kernel];
  require(launch.segments.size() <= kernel.maxSegments, "it has more segments than the kernel");
  const size_t args = launch.segments[0].args.size();
  uint64_t blocks = 0;
  for (const Launch::Segment &segment : launch.segments) {
    blocks = plus(blocks, uint64_t(segment.iterations) / uint64_t(kernel.iterationsPerBlock) + 1);
    const uint64_t own = uint64_t(segment.iterations / kernel.iterationsPerBlock) +
                         uint64_t(segment.iterations % kernel.iterationsPerBlock != 0);
    require(own % kernel.clusterBlocks == 0,
            "its number of blocks is not a multiple of a cluster's");
    for (const TensorMap &map : kernel.tensorMaps)
      check(map, segment);
  }
  require(blocks <= INT32_MAX, "it needs more blocks than a grid has");
  uint64_t bytes = plus(8, times(kernel.maxSegments, times(args + 2, 8)));
  if (const size_t maps = kernel.tensorMaps.size())
    bytes = plus((bytes + encodedMapAlignment - 1) / encodedMapAlignment * encodedMapAlignment,
                 times(maps, encodedMapBytes));
  require(bytes <= uint64_t(maxParameterBytes),
          "its operands need more than the 32764 bytes that a kernel's parameters may have");
}

void Validator::check(const TensorMap &map, const Launch::Segment &segment) const {
  require(map.argument < segment.args.size(), "a tensor map is of an operand that does not exist");
  const Ref &ref = segment.args[map.argument];
  require(ref.offset % 16 == 0, "a matrix of a tensor map does not start at a multiple of 16");
  inside(ref, bytesOf(map), "the matrix of a tensor map");
}

} // namespace nano::plan
