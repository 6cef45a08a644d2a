# The lit suite `nano-lit`: every tests/**/*.mlir and tests/**/*.test, run with the tools of this build.
import os

import lit.formats

config.name = "nano-lit"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.nano_build_dir, "tests")

# Ours first: a tool of the same name elsewhere must not be tested by mistake.
config.environment["PATH"] = os.pathsep.join([config.nano_bin_dir, config.llvm_bin_dir, config.environment["PATH"]])
# Model files and the emulator's kernels are compiled with the compiler that users have for them; a model's library is
# made once, where that program is built.
kept = os.path.join(config.nano_bin_dir, "nano-kept-compiler")
config.environment["CXX"] = kept if os.path.exists(kept) else "c++"
config.environment["TMPDIR"] = os.environ.get("TMPDIR", "/tmp")

# %root: the repository; %models: its model files; %nano-bin: the built tools.
config.substitutions += [
    ("%root", config.nano_source_dir),
    ("%models", os.path.join(config.nano_source_dir, "models")),
    ("%nano-bin", config.nano_bin_dir),
]
