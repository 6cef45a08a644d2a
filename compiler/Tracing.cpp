// Loads dialects, records a model, and says what went wrong.
#include "compiler/Tracing.h"

#include "compiler/Driver.h"
#include "compiler/Excerpt.h"
#include "compiler/PassRecorder.h"
#include "compiler/Registration.h"
#include "compiler/ScalesFile.h"
#include "compiler/StageRunner.h"

#include "mlir/IR/DialectRegistry.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>

using namespace mlir;

namespace nano {

using frontend::TracedModel;

void loadDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

TracedModel trace(MLIRContext &context, const ModelFile &file, const Overrides &overrides,
                  const std::string &scales, const std::vector<std::string> &reports,
                  const frontend::KernelTrace &kernels) {
  frontend::TraceInput input = file.input();
  input.overrides = overrides;
  input.reports = reports;
  input.kernels = kernels;
  if (!scales.empty())
    input.scales = readScalesFile(scales);
  return frontend::traceModel(context, input);
}

int guarded(llvm::function_ref<void()> work, explore::PassRecords *records) {
  auto note = [&](const std::string &message) {
    if (records)
      records->failure = failureOf(message);
  };
  try {
    work();
    return Done;
  } catch (const ModelError &error) {
    note(error.what());
    fmt::print(stderr, "nanoc: {}\n{}", error.what(), excerptOf(error.what(), error.column));
    return BadInput;
  } catch (const StageError &error) {
    note(error.what());
    fmt::print(stderr, "nanoc: {}\n{}", error.what(), excerptOf(error.what(), 0));
    return error.isBadInput ? BadInput : RunFailed;
  } catch (const std::bad_alloc &) {
    throw; // main says so
  } catch (const std::exception &error) {
    fmt::print(stderr, "nanoc: internal error: {}\n", error.what());
    return RunFailed;
  }
}

} // namespace nano
