import re, sys
td, out = sys.argv[1:3]
text = open(td).read()
body = ['#include "passes/Passes.h"', 'namespace {', 'template <typename Tag> struct Missing : mlir::PassWrapper<Missing<Tag>, mlir::OperationPass<mlir::ModuleOp>> {',
 '  llvm::StringRef getArgument() const final { return Tag::argument; }', '  llvm::StringRef getName() const final { return Tag::name; }', '  llvm::StringRef getDescription() const final { return "not built yet"; }',
 '  void runOnOperation() final { if (getArgument().contains("verify")) return; this->getOperation().emitError() << Tag::argument << ": this pass is not built yet"; this->signalPassFailure(); }', '};', '}', 'namespace nano {']
for m in re.finditer(r'def (\w+) : Pass<"([\w-]+)".*?\n}', text, re.S):
    name, argument = m.group(1), m.group(2)
    import glob, os
    if glob.glob(os.path.join(os.path.dirname(td), '*', name + '.cpp')): continue
    body.append(f'namespace {{ struct {name}Tag {{ static constexpr const char *argument = "{argument}", *name = "{name}"; }}; }}')
    body.append(f'__attribute__((weak)) std::unique_ptr<mlir::Pass> create{name}() {{ return std::make_unique<Missing<{name}Tag>>(); }}')
    if 'options' in m.group(0):
        body.append(f'__attribute__((weak)) std::unique_ptr<mlir::Pass> create{name}({name}Options) {{ return std::make_unique<Missing<{name}Tag>>(); }}')
body.append('}')
new = '\n'.join(body) + '\n'
try: old = open(out).read()
except OSError: old = ''
if old != new: open(out, 'w').write(new)
