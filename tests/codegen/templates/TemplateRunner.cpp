// Compiles kernel text with the emulator, lays out buffers with gaps and runs blocks.
#include "tests/codegen/templates/TemplateRunner.h"
#include "codegen/DeviceLibrary.h"
#include "runtime/emulator/Boxes.h"
#include "runtime/files/BuildCache.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace nano::test {

uint16_t toBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float fromBf16(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value = 0;
  std::memcpy(&value, &word, 4);
  return value;
}

DeviceBuffer DeviceBuffer::ofFloats(std::string name, const std::vector<double> &values) {
  DeviceBuffer buffer(std::move(name), 4, values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    auto value = static_cast<float>(values[i]);
    std::memcpy(&buffer.bytes[4 * i], &value, 4);
  }
  return buffer;
}

DeviceBuffer DeviceBuffer::ofBf16(std::string name, const std::vector<double> &values) {
  DeviceBuffer buffer(std::move(name), 2, values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t value = toBf16(static_cast<float>(values[i]));
    std::memcpy(&buffer.bytes[2 * i], &value, 2);
  }
  return buffer;
}

DeviceBuffer DeviceBuffer::ofInts(std::string name, const std::vector<int> &values) {
  DeviceBuffer buffer(std::move(name), 4, values.size());
  std::memcpy(buffer.bytes.data(), values.data(), 4 * values.size());
  return buffer;
}

std::vector<double> DeviceBuffer::values() const {
  std::vector<double> result(bytes.size() / elementBytes);
  for (size_t i = 0; i < result.size(); ++i) {
    if (elementBytes == 2) {
      uint16_t value = 0;
      std::memcpy(&value, &bytes[2 * i], 2);
      result[i] = fromBf16(value);
    } else {
      float value = 0;
      std::memcpy(&value, &bytes[4 * i], 4);
      result[i] = value;
    }
  }
  return result;
}

TemplateRunner::TemplateRunner(const std::string &text, const std::vector<std::string> &names)
    : names(names) {
  plan::Plan plan;
  plan.target = "cuda";
  plan.sources = codegen::deviceLibrary();
  plan.sources.push_back({"test.cu", text});
  for (const std::string &name : names) {
    plan::Kernel kernel;
    kernel.name = name;
    kernel.source = "test.cu";
    plan.kernels.push_back(kernel);
  }
  // What no program launches is not compiled.
  plan::Program &program = plan.programs.emplace_back();
  for (uint32_t i = 0; i < names.size(); ++i)
    program.commands.emplace_back().action = plan::Launch{i, {}};
  emulator::CompileOptions options;
  options.cacheFolder = BuildCache::defaultFolder();
  auto compiled = emulator::compileKernels(plan, options);
  if (!compiled) {
    ADD_FAILURE() << compiled.error().message;
    return;
  }
  kernels = std::move(*compiled);
}

std::string TemplateRunner::run(const std::string &name, const Shape &shape,
                                const std::vector<Argument> &arguments, uint64_t seed) {
  size_t index = std::find(names.begin(), names.end(), name) - names.begin();
  if (index >= kernels.byIndex.size())
    return "no kernel " + name;

  // Buffers side by side, with gaps.
  std::vector<DeviceBuffer *> buffers;
  for (const Argument &argument : arguments)
    if (std::find(buffers.begin(), buffers.end(), argument.buffer) == buffers.end())
      buffers.push_back(argument.buffer);
  constexpr size_t gap = 4096;
  std::vector<size_t> offsets;
  size_t size = gap;
  for (DeviceBuffer *buffer : buffers) {
    offsets.push_back(size);
    size += (buffer->bytes.size() + gap - 1) / gap * gap + gap;
  }
  std::vector<std::byte> memory(size + gap);
  std::byte *base = memory.data() + (gap - reinterpret_cast<uintptr_t>(memory.data()) % gap);
  std::vector<emulator::Region> regions;
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::memcpy(base + offsets[i], buffers[i]->bytes.data(), buffers[i]->bytes.size());
    emulator::Region region;
    region.begin = base + offsets[i];
    region.bytes = buffers[i]->bytes.size();
    region.name = buffers[i]->name;
    region.elementBytes = buffers[i]->elementBytes;
    region.operand = true;
    for (const Argument &argument : arguments)
      if (argument.buffer == buffers[i]) {
        region.readable |= !argument.isWritten || argument.isUpdated;
        region.writable |= argument.isWritten;
      }
    regions.push_back(region);
  }
  emulator::GlobalMemory global;
  if (!global.set(std::move(regions)))
    return "out of memory";

  // nano::Launch<n, 1>.
  std::vector<int64_t> parameters(1);
  std::vector<const std::byte *> addresses;
  const int64_t blocks = (shape.iterations + shape.blockIterations - 1) / shape.blockIterations;
  std::array<int32_t, 2> counts = {1, int32_t(blocks)};
  std::memcpy(parameters.data(), counts.data(), sizeof counts);
  for (const Argument &argument : arguments) {
    size_t i = std::find(buffers.begin(), buffers.end(), argument.buffer) - buffers.begin();
    addresses.push_back(base + offsets[i] + argument.offset);
    parameters.push_back(reinterpret_cast<int64_t>(addresses.back()));
  }
  parameters.push_back(shape.iterations);
  parameters.push_back(0);

  emulator::Launch launch;
  launch.kernel = kernels.byIndex[index];
  if (launch.kernel->parameterBytes != 8 * parameters.size())
    return "the kernel has another number of arguments";
  launch.parameters = parameters.data();
  std::vector<emulator::TensorMap> maps;
  for (const plan::TensorMap &map : shape.maps)
    maps.push_back(emulator::encode(map, addresses[map.argument]));
  if (launch.kernel->tensorMaps != maps.size())
    return "the kernel has another number of tensor maps";
  launch.maps = maps.data();
  launch.blocks = uint32_t(blocks);
  launch.threads = uint32_t(shape.threads);
  launch.sharedBytes = uint32_t(shape.sharedBytes);
  launch.seed = seed;
  launch.memory = &global;
  launch.serial = global.begin();
  const auto clusterBlocks = uint32_t(launch.kernel->clusterBlocks);
  if (launch.blocks % clusterBlocks != 0)
    return "the blocks are no whole number of clusters";
  std::vector<uint32_t> order(launch.blocks / clusterBlocks);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  for (uint32_t number : order)
    if (auto fault = cluster.run(launch, number * clusterBlocks))
      return *fault;
  for (size_t i = 0; i < buffers.size(); ++i)
    std::memcpy(buffers[i]->bytes.data(), base + offsets[i], buffers[i]->bytes.size());
  return "";
}

std::string libraryText(const std::string &name) {
  for (const plan::Source &source : codegen::deviceLibrary())
    if (source.name == name)
      return source.text;
  ADD_FAILURE() << "the device library has no " << name;
  return "";
}

std::string replaced(std::string text, const std::string &part, const std::string &other) {
  const size_t at = text.find(part);
  if (at == std::string::npos)
    ADD_FAILURE() << "the template does not have: " << part;
  else
    text.replace(at, part.size(), other);
  return text;
}

} // namespace nano::test
