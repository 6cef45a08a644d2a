// Plans of one launch.
#include "tests/runtime/emulator/KernelRun.h"

#include "codegen/DeviceLibrary.h"

#ifndef NANO_TEST_ON_GPU
#include "runtime/emulator/EmulatorDevice.h"
#endif

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace nano::test {

namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The repository: where this was built, or the current folder on a machine that it was carried to.
std::string root() {
  static const std::string found =
      std::filesystem::exists(NANO_TEST_ROOT "/tests/runtime/emulator/KernelRun.cpp")
          ? NANO_TEST_ROOT "/"
          : "";
  return found;
}

/// The kernels that a text defines by test_launch.h's macros.
[[maybe_unused]] std::vector<std::string> kernelsOf(const std::string &text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find('(') + 1;
    const std::string name = line.substr(begin, line.find(',') - begin);
    if (line.starts_with("TEST_KERNEL("))
      names.push_back(name);
    if (line.starts_with("TEST_PAIR("))
      names.insert(names.end(), {name + "_good", name + "_bad"});
  }
  return names;
}

std::string kernelFile(const std::string &file) {
  return root() + "tests/runtime/emulator/kernels/" + file;
}

} // namespace

std::vector<plan::Source> sourcesOf(const std::string &file) {
  std::vector<plan::Source> sources = {
      {file, readText(kernelFile(file))},
      {"test_launch.h", readText(root() + "tests/runtime/emulator/test_launch.h")}};
  // The emulator has its own primitives, as it has for plans that nanoc made.
  for (plan::Source &header : codegen::deviceLibrary())
    sources.push_back(std::move(header));
  return sources;
}

std::string lineOf(const std::string &file, const std::string &mark) {
  std::ifstream text(kernelFile(file));
  int number = 0, found = 0, times = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    size_t at = line.find("// @" + mark);
    if (at != std::string::npos && at + 4 + mark.size() == line.size()) {
      found = number;
      ++times;
    }
  }
  EXPECT_EQ(times, 1) << "lines with // @" << mark;
  return file + ":" + std::to_string(found);
}

KernelRun::KernelRun(const std::string &file, const std::string &kernel) {
  plan::Plan &plan = *planned;
  plan.model = "test";
  plan.target = "cuda";
  plan.worlds = {1};
  plan.sources = sourcesOf(file);
  plan::Kernel entry;
  entry.name = kernel;
  entry.source = file;
  entry.threads = 32;
  entry.iterationsPerBlock = 1;
  entry.maxSegments = 1;
  plan.kernels.push_back(entry);
#ifndef NANO_TEST_ON_GPU
  // With the others of the file beside it, one library of the cache is that of all its tests.
  for (const std::string &other : kernelsOf(plan.sources[0].text))
    if (other != kernel) {
      plan.kernels.push_back(entry);
      plan.kernels.back().name = other;
    }
#endif
  plan::Launch launch;
  launch.segments.resize(1);
  launch.segments[0].iterations = 1;
  plan.programs.push_back({"main", {{launch}}, 1, 0});
  // Buffer 0 holds no scalars.
  plan.buffers.push_back({"scalars", 0, 0, plan::DType::F32, {}, {}});
}

void KernelRun::add(size_t elementBytes, bool read, bool written) {
  plan::Plan &plan = *planned;
  plan::DType type = elementBytes == 1   ? plan::DType::F8E4M3FN
                     : elementBytes == 2 ? plan::DType::BF16
                                         : plan::DType::F32;
  uint64_t bytes = contents.back().size();
  auto index = uint32_t(plan.buffers.size());
  plan.buffers.push_back({"operand" + std::to_string(index - 1),
                          plan.arenaBytes,
                          bytes,
                          type,
                          {int64_t(bytes / plan::sizeOf(type))},
                          {}});
  plan.arenaBytes += (bytes + 255) / 256 * 256;
  plan.programs[0].commands[0].as<plan::Launch>()->segments[0].args.push_back(
      {index, 0, written, read});
  // As a state it keeps its contents when the program starts.
  plan::State state;
  state.buffer = index;
  plan.states.push_back(state);
}

KernelRun &KernelRun::threads(uint32_t count) {
  planned->kernels[0].threads = count;
  return *this;
}

KernelRun &KernelRun::blocks(int64_t count) {
  planned->programs[0].commands[0].as<plan::Launch>()->segments[0].iterations = count;
  return *this;
}

KernelRun &KernelRun::shared(uint64_t bytes) {
  planned->kernels[0].sharedBytes = bytes;
  return *this;
}

KernelRun &KernelRun::cluster(uint32_t blocks) {
  planned->kernels[0].clusterBlocks = blocks;
  return *this;
}

KernelRun &KernelRun::map(const plan::TensorMap &map) {
  planned->kernels[0].tensorMaps.push_back(map);
  return *this;
}

std::string KernelRun::run(bool checked) {
  if (!device) {
    DeviceOptions options;
    options.threads = 2;
    options.report = [to = lines.get()](const std::string &line) { to->push_back(line); };
#ifdef NANO_TEST_ON_GPU
    auto made = loadDevice(*planned, group->communicator(0), options);
#else
    auto made =
        emulator::EmulatorDevice::create(*planned, group->communicator(0), options, {checked, 1});
#endif
    if (!made)
      return made.error().message;
    device = std::move(*made);
  }
  for (size_t i = 0; i < contents.size(); ++i)
    EXPECT_TRUE(device->write(uint32_t(i + 1), 0, contents[i].data(), contents[i].size()));
  Status status = device->run("main");
  results = contents;
  for (size_t i = 0; i < contents.size(); ++i)
    EXPECT_TRUE(device->read(uint32_t(i + 1), 0, results[i].data(), results[i].size()));
  return status ? "" : status.error().message;
}

} // namespace nano::test
