// LLVM for a handful of loops: translation, a short list of optimisations, object files by thread,
// and the system's linker.
#include "codegen/cpu/NativeCode.h"

#include "codegen/CustomKernels.h"
#include "codegen/cpu/CustomCode.h"
#include "codegen/cpu/KernelLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <tuple>

using namespace mlir;

namespace nano::codegen {

static const char *triple = "x86_64-unknown-linux-gnu";

static std::unique_ptr<llvm::TargetMachine> makeMachine(const CpuTarget &target, bool isOptimized,
                                                        std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // Kernels address memory at constant offsets from a few bases. Loop strength reduction makes
    // none of them faster, attention slower, and takes half of attention's compile time.
    if (llvm::cl::Option *option = llvm::cl::getRegisteredOptions().lookup("disable-lsr"))
      option->addOccurrence(0, "disable-lsr", "true");
  });
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(llvm::Triple(triple), error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      llvm::Triple(triple), target.avx512 ? "x86-64-v4" : "x86-64-v3",
      target.amxBf16      ? "+avx512bf16,+amx-tile,+amx-bf16"
      : target.avx512Bf16 ? "+avx512bf16"
                          : "",
      options, llvm::Reloc::PIC_, std::nullopt,
      isOptimized ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      passes.run(function, functions);
}

/// The object file of a module in the LLVM dialect, or nothing and an error.
static std::optional<llvm::SmallVector<char, 0>>
makeObject(ModuleOp module, const CpuTarget &target, bool isOptimized, std::string &error) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target, isOptimized, error);
  if (!machine)
    return std::nullopt;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "kernels", /*disableVerification=*/true);
  if (!code) {
    error = "the kernels do not translate to LLVM IR";
    return std::nullopt;
  }
  code->setTargetTriple(llvm::Triple(triple));
  code->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("tune-cpu", target.tuning);
    function.addFnAttr("prefer-vector-width", target.avx512 ? "512" : "256");
    function.addFnAttr("min-legal-vector-width", target.avx512 ? "512" : "256");
  }
  if (isOptimized)
    optimize(*code, *machine);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager emission;
  if (machine->addPassesToEmitFile(emission, os, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    error = "LLVM cannot emit object files for this target";
    return std::nullopt;
  }
  emission.run(*code);
  return object;
}

//===- Linking ------------------------------------------------------------===//

/// A directory of its own under the system's temporary one, removed with all it holds at the end.
struct TemporaryDirectory {
  llvm::SmallString<128> path;
  std::error_code error = llvm::sys::fs::createUniqueDirectory("nanoc", path);
  ~TemporaryDirectory() {
    if (!error)
      std::ignore = llvm::sys::fs::remove_directories(path);
  }
  std::string file(const Twine &name) const { return (path + "/" + name).str(); }
};

/// `ld -shared` over the objects; undefined symbols are errors. `scratch`: definitions of symbols.
/// `custom`: objects of the model's own kernels in `directory`, which may call the C library.
static FailureOr<std::string> link(ArrayRef<llvm::SmallVector<char, 0>> objects,
                                   ArrayRef<std::string> scratch, ArrayRef<std::string> custom,
                                   const TemporaryDirectory &directory, Location loc) {
  llvm::ErrorOr<std::string> linker = llvm::sys::findProgramByName("ld");
  if (!linker)
    return emitError(loc) << "the linker 'ld' is not on this machine; install the package binutils";
  std::vector<std::string> arguments = {*linker,
                                        "-shared",
                                        "-z",
                                        "defs",
                                        "-z",
                                        "noexecstack",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "-s",
                                        "-o",
                                        directory.file("kernels.so")};
  llvm::append_range(arguments, scratch);
  for (auto [i, object] : llvm::enumerate(objects)) {
    arguments.push_back(directory.file("kernels" + Twine(i) + ".o"));
    std::error_code error;
    llvm::raw_fd_ostream os(arguments.back(), error);
    os.write(object.data(), object.size());
    os.close();
    if (error || os.has_error()) {
      std::string message = error ? error.message() : os.error().message();
      os.clear_error();
      return emitError(loc) << "cannot write " << arguments.back() << ": " << message;
    }
  }
  if (!custom.empty()) {
    llvm::append_range(arguments, custom);
    llvm::append_range(arguments, std::vector<std::string>{"--as-needed", "-lm", "-lc"});
  }
  std::string log = directory.file("log");
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  std::string message;
  SmallVector<StringRef> words(arguments.begin(), arguments.end());
  int status = llvm::sys::ExecuteAndWait(*linker, words, std::nullopt, redirects,
                                         /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  if (status != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(log))
      message += (*text)->getBuffer().split('\n').first;
    return emitError(loc) << "linking the kernels failed: " << message;
  }
  auto bytes = llvm::MemoryBuffer::getFile(directory.file("kernels.so"));
  if (!bytes)
    return emitError(loc) << "cannot read the linker's output: " << bytes.getError().message();
  return (*bytes)->getBuffer().str();
}

//===- Whole --------------------------------------------------------------===//

/// Distributes the functions of `module` over `count` new modules, the longest first to the one
/// that has least; in an order that depends on the functions alone.
static std::vector<OwningOpRef<ModuleOp>> distribute(ModuleOp module, unsigned count) {
  std::vector<std::pair<int64_t, LLVM::LLVMFuncOp>> functions;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    int64_t size = 0;
    for (Block &block : function.getBody())
      size += static_cast<int64_t>(block.getOperations().size());
    functions.push_back({size, function});
  }
  std::stable_sort(functions.begin(), functions.end(),
                   [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<OwningOpRef<ModuleOp>> parts;
  std::vector<int64_t> loads(count, 0);
  for (unsigned i = 0; i < count; ++i)
    parts.push_back(ModuleOp::create(module.getLoc()));
  for (auto &[size, function] : functions) {
    size_t least = std::min_element(loads.begin(), loads.end()) - loads.begin();
    loads[least] += size;
    function->moveBefore(parts[least]->getBody(), parts[least]->getBody()->end());
  }
  return parts;
}

FailureOr<NativeCode> compileKernels(ModuleOp kernels, const CpuTarget &target,
                                     const NativeOptions &options, NativeTimes *times) {
  using Clock = std::chrono::steady_clock;
  auto millisecondsSince = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  Clock::time_point start = Clock::now();
  OwningOpRef<ModuleOp> copy = kernels.clone();
  TemporaryDirectory directory;
  if (directory.error)
    return kernels.emitError("cannot make a temporary directory: ") << directory.error.message();
  SmallVector<std::string> custom;
  for (auto kernel : llvm::make_early_inc_range(copy->getOps<kernel::FuncOp>())) {
    if (!isCustomKernel(kernel))
      continue;
    FailureOr<std::string> object = compileCustomKernel(kernel, target, directory.path.str().str());
    if (failed(object))
      return failure();
    custom.push_back(std::move(*object));
    kernel.erase();
  }
  if (failed(lowerKernelsToLlvm(*copy, target)))
    return failure();
  if (times)
    times->lowering = millisecondsSince(start);

  start = Clock::now();
  std::vector<OwningOpRef<ModuleOp>> parts = distribute(*copy, std::max(1u, options.threads));
  std::vector<std::optional<llvm::SmallVector<char, 0>>> objects(parts.size());
  std::vector<std::string> errors(parts.size());
  std::vector<std::thread> workers;
  for (size_t i = 1; i < parts.size(); ++i)
    workers.emplace_back(
        [&, i] { objects[i] = makeObject(*parts[i], target, options.isOptimized, errors[i]); });
  objects[0] = makeObject(*parts[0], target, options.isOptimized, errors[0]);
  for (std::thread &worker : workers)
    worker.join();
  SmallVector<llvm::SmallVector<char, 0>> finished;
  for (auto [object, error] : llvm::zip(objects, errors)) {
    if (!object)
      return kernels.emitError(error);
    finished.push_back(std::move(*object));
  }
  if (times)
    times->objects = millisecondsSince(start);

  start = Clock::now();
  // What plans must not contradict: the kernels' need of scratch memory.
  SmallVector<std::string> scratch;
  for (auto function : kernels.getOps<kernel::FuncOp>())
    scratch.push_back(
        ("--defsym=" + function.getSymName() + ".scratch=" + Twine(function.getScratchBytes()))
            .str());
  FailureOr<std::string> code = link(finished, scratch, custom, directory, kernels.getLoc());
  if (failed(code))
    return failure();
  if (times)
    times->linking = millisecondsSince(start);
  // Tiles are in no instruction but of kernels that say so.
  const bool usesTiles = kernels
                             .walk([](Operation *op) {
                               return op->getName().getStringRef() == "amx.tile_mulf"
                                          ? WalkResult::interrupt()
                                          : WalkResult::advance();
                             })
                             .wasInterrupted();
  std::vector<std::string> features = target.features();
  if (!usesTiles)
    llvm::erase_if(features, [](StringRef name) { return name.starts_with("amx_"); });
  return NativeCode{std::move(*code), std::move(features)};
}

/// Appends "file:line" of every line in `loc`.
static void collectLines(Location loc, SmallVectorImpl<std::string> &lines) {
  loc->walk([&](Location inner) {
    if (auto line = dyn_cast<FileLineColLoc>(inner)) {
      std::string name = (line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
      if (!llvm::is_contained(lines, name))
        lines.push_back(name);
    }
    return WalkResult::advance();
  });
}

std::string kernelText(Operation *function) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto kernel = dyn_cast<kernel::FuncOp>(function); kernel && kernel.getSummary())
    os << "// " << *kernel.getSummary() << '\n';
  SmallVector<std::string> lines;
  collectLines(function->getLoc(), lines);
  if (!lines.empty())
    os << "// of " << llvm::join(lines, ", ") << '\n';
  os << OpWithFlags(function, OpPrintingFlags().useLocalScope()) << '\n';
  return text;
}

} // namespace nano::codegen
