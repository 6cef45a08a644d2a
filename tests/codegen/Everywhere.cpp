// Runs one task's kernels of both targets.
#include "tests/codegen/Everywhere.h"

#include "tests/codegen/CudaRow.h"

#include "ir/step/Step.h"

#include "gtest/gtest.h"

#include <cstring>

namespace nano::test {

std::string taskText(const std::vector<std::string> &ins, const std::vector<std::string> &outs,
                     const std::string &body) {
  std::string buffers, names[2], memrefs[2], arguments;
  for (int isOut : {0, 1})
    for (size_t i = 0; i < (isOut ? outs : ins).size(); ++i) {
      const std::string &type = (isOut ? outs : ins)[i];
      const std::string name = (isOut ? "out" : "in") + std::to_string(i), comma = i ? ", " : "";
      buffers += "  %" + name + " = step.buffer \"" + name + "\" : memref<" + type + ">\n";
      names[isOut] += comma + "%" + name;
      memrefs[isOut] += comma + "memref<" + type + ">";
      if (!isOut)
        arguments += comma + "%a" + std::to_string(i) + ": tensor<" + type + ">";
    }
  return "step.program @p {\n" + buffers + "  step.task ins(" + names[0] + ") outs(" + names[1] +
         ") : (" + memrefs[0] + ") -> (" + memrefs[1] + ") {\n  ^bb0(" + arguments + "):\n" + body +
         "\n  }\n}\n";
}

namespace {

size_t bytesOf(mlir::Value operand) {
  return step::contiguousBytes(mlir::cast<mlir::MemRefType>(operand.getType()));
}

std::vector<TensorValue> resultsOf(const TaskRunner &runner) {
  std::vector<TensorValue> results;
  for (unsigned i = 0; i < runner.taskOp().getOuts().size(); ++i)
    results.push_back(runner.output(i));
  return results;
}

} // namespace

void runEverywhere(const std::string &text, const std::vector<TensorValue> &inputs,
                   const std::function<void(const std::vector<TensorValue> &results)> &check) {
  std::unique_ptr<TaskRunner> runner;
  for (int64_t lanes : TaskRunner::lanes()) {
    SCOPED_TRACE(std::to_string(lanes) + " lanes of\n" + text);
    runner = TaskRunner::make(text, emitRow, lanes);
    ASSERT_TRUE(runner);
    for (unsigned i = 0; i < inputs.size(); ++i)
      runner->setInput(i, inputs[i]);
    runner->run();
    check(resultsOf(*runner));
  }
  SCOPED_TRACE("the emulator, of\n" + text);
  const CudaRow kernel = cudaRow(text);
  // The same bytes in and out.
  std::vector<DeviceBuffer> buffers;
  for (unsigned i = 0; i < inputs.size(); ++i) {
    buffers.emplace_back("in" + std::to_string(i), 1, bytesOf(runner->taskOp().getIns()[i]));
    std::memcpy(buffers.back().bytes.data(), runner->inputMemory(i), buffers.back().bytes.size());
  }
  for (mlir::Value out : runner->taskOp().getOuts()) {
    buffers.emplace_back("out", 1, bytesOf(out));
    std::memset(buffers.back().bytes.data(), 0xff, buffers.back().bytes.size());
  }
  std::vector<Argument> arguments;
  for (size_t i = 0; i < buffers.size(); ++i)
    arguments.push_back({&buffers[i], i >= inputs.size()});
  ASSERT_EQ(run(kernel, arguments), "") << kernel.text;
  for (unsigned i = 0; i < runner->taskOp().getOuts().size(); ++i) {
    const DeviceBuffer &buffer = buffers[inputs.size() + i];
    std::memcpy(runner->outputMemory(i), buffer.bytes.data(), buffer.bytes.size());
  }
  check(resultsOf(*runner));
}

void expectExact(const std::string &text, const std::vector<TensorValue> &inputs) {
  std::vector<TensorValue> expected;
  {
    auto runner = TaskRunner::make(text, emitRow, TaskRunner::lanes().front());
    ASSERT_TRUE(runner);
    std::vector<TensorValue> rounded;
    for (unsigned i = 0; i < inputs.size(); ++i) {
      runner->setInput(i, inputs[i]);
      rounded.push_back(runner->input(i));
    }
    expected = interpretTask(runner->taskOp(), rounded);
  }
  runEverywhere(text, inputs, [&](const std::vector<TensorValue> &results) {
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i)
      for (int64_t j = 0; j < expected[i].size(); ++j)
        ASSERT_EQ(results[i].data[j], expected[i].data[j]) << "result " << i << " at " << j;
  });
}

} // namespace nano::test
