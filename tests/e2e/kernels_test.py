#!/usr/bin/env python3
"""Kernels of a model's own: the example of docs/kernels.md, done literally, beside the same model in
plain ops; losses and gradients of others against plain double precision and finite differences;
accesses that are not as declared; texts that do not compile."""

import glob
import os
import re
import struct
import sys

from harness import (
    ROOT,
    RunTest,
    distance,
    main,
    read_safetensors,
    run_command,
    tokens,
    train_losses,
    write_shard,
)

sys.path.insert(0, os.path.join(ROOT, "tests/golden"))

import nvrtc

# A step of 16 rows of 12; CODE gives a number for each, of x and w.
ROWS, COLUMNS = 16, 12
MODEL = """#include "models/optimizers.h"
using namespace nano::frontend;
NANO_MODEL {
  const int64_t T = 16, C = 12;
  KERNELS
  const auto group = adam("all", {.lr = 0.1, .beta1 = 0.5});
  const Tensor rows = param("rows", {T, C}, f32, normal(0, 1), group);
  const Tensor w = param("w", {C}, f32, normal(0, 1), group);
  auto loss = [&](Tensor tokens, Tensor) {
    const Tensor x = rows[tokens];
    const auto f = [&]() -> Tensor { CODE; };
    return reshape(f(), {T});
  };
  training({.vocabSize = T, .eosToken = 0, .globalBatch = T, .numIterations = 1});
  train(T, Loss::sum, loss);
  validate(T, Loss::mean, loss);
}
"""

# Two results, a slice of rows as an input and a part of a concatenation as a result; the backward
# pass is a kernel too, which adds up the gradient of w.
SCALED = r"""
  const char *forward = R"(
template <class X, class W, class Y, class S>
NANO_DEVICE void scaled(int64_t begin, int64_t end, X x, W w, Y y, S s) {
  for (int64_t t = begin + threadIdx.x; t < end; t += blockDim.x) {
    float sum = 0;
    for (int c = 0; c < X::size(1); ++c) {
      y(t, c) = w[c] * x(t, c) * x(t, c);
      sum += x(t, c);
    }
    s[t] = typename S::Element(sum);
  }
}
)";
  const char *backward = R"(
template <class X, class W, class DY, class DX, class DW>
NANO_DEVICE void scaled_grad(int64_t begin, int64_t end, X x, W w, DY dy, DX dx, DW dw) {
  for (int64_t c = begin + threadIdx.x; c < end; c += blockDim.x)
    for (int t = 0; t < X::size(0); ++t) {
      dx(t, c) = 2 * w[c] * x(t, c) * dy(t, c);
      dw[c] += x(t, c) * x(t, c) * dy(t, c);
    }
}
)";
  const Kernel scaledGrad = kernel("scaled_grad", {
      .cpu = backward,
      .cuda = backward,
      .results = [](const Tensors &in) -> KernelResults { return {in[0], {in[1], Access::add}}; },
      .iterations = [](const Tensors &in) { return in[0].size(1); },
      .iterationsPerBlock = 5,
  });
  const Kernel scaled = kernel("scaled", {
      .cpu = forward,
      .cuda = forward,
      .results = [](const Tensors &in) -> KernelResults { return {in[0], {{in[0].size(0)}, bf16}}; },
      .iterations = [](const Tensors &in) { return in[0].size(0); },
      .derivative = [=](const Tensors &in, const Tensors &, const Tensors &dy) -> Tensors {
        const Tensors g = scaledGrad.all({in[0], in[1], dy[0]});
        return {g[0] + reshape(cast(dy[1], f32), {in[0].size(0), 1}), g[1]};
      },
      .threads = 32,
      .iterationsPerBlock = 3,
      .flops = 36,
  });
"""
SCALED_CODE = """
      const Tensors y = scaled.all({slice(x, 1, 1, 9), slice(w, 0, 3, 9)});
      const Tensor all = concat({y[0], slice(x, 1, 0, 3)}, 1);
      return sum(all * w, 1) + reshape(cast(y[1], f32), {T, 1})"""

TWICE = r"""
  const char *text = R"(
template <class X, class Y> NANO_DEVICE void twice(int64_t begin, int64_t end, X x, Y y) {
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    BODY
}
)";
  const Kernel twice = kernel("twice", {
      TARGETS
      .results = [](const Tensors &in) -> KernelResults { return {in[0]}; },
      .iterations = [](const Tensors &in) { return X * in[0].size(1); },
      DERIVATIVE
      .iterationsPerBlock = 64,
  });
"""
DERIVATIVE = """.derivative = [](const Tensors &, const Tensors &, const Tensors &dy) -> Tensors {
        return {2.0 * dy[0]};
      },"""


# A norm of rows that sums them in another order, and a derivative that does not repeat it.
NORM = r"""
  const char *text = R"(
template <class X, class Y> NANO_DEVICE void fast_norm(int64_t begin, int64_t end, X x, Y y) {
  for (int64_t t = begin + threadIdx.x; t < end; t += blockDim.x) {
    float squares = 0;
    for (int64_t c = X::size(-1); c-- > 0;)
      squares += x[t * X::size(-1) + c] * x[t * X::size(-1) + c];
    const float scale = SCALE / nano::sqrt(squares / X::size(-1) + 1.1920929e-7f);
    for (int64_t c = 0; c < X::size(-1); ++c)
      y[t * X::size(-1) + c] = typename Y::Element(x[t * X::size(-1) + c] * scale);
  }
}
)";
  const Kernel fastNorm = kernel("fast_norm", {
      .cpu = text,
      .cuda = text,
      .results = [](const Tensors &in) -> KernelResults { return {in[0]}; },
      .iterations = [](const Tensors &in) { return in[0].size(0); },
      .derivative = [](const Tensors &in, const Tensors &y, const Tensors &dy) -> Tensors {
        const Tensor scale = rsqrt(mean(square(in[0]), -1) + 1.1920929e-7);
        return {scale * (dy[0] - y[0] * mean(dy[0] * y[0], -1))};
      },
      .iterationsPerBlock = 4,
  });
  REPLACE
"""
NORM_CODE = "return sum(norm(x) * w, 1) + 0.0 * sum(x, 1)"


def twice(body="y[i] = 2 * x[i];", targets=".cpu = text, .cuda = text,", derivative=DERIVATIVE):
    text = TWICE.replace("BODY", body).replace("TARGETS", targets).replace("X *", "in[0].size(0) *")
    return text.replace("DERIVATIVE", derivative)


def without_excerpts(text):
    """Messages without the model's lines that are shown below them."""
    return "".join(line for line in text.splitlines(True) if not re.match(r" +\d* \| ", line))


def rounded(x):
    """To bf16, to nearest even."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class Kernels(RunTest):
    def write(self, name, kernels, code):
        path = self.path(name + ".cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(MODEL.replace("KERNELS", kernels).replace("CODE", code))
        return path

    def compiled(self, source, target, *options):
        plan = source.replace(".cpp", f".{target}.plan")
        done = run_command("nanoc", "compile", source, "-o", plan, "--target", target, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), source)
        return plan

    def gradients(self, plan, name, *options, threads=1):
        """The loss and the gradients of one step: Adam's first moment is (1 − β₁)·gradient."""
        save = ("--steps", 1, "--save", self.path(name))
        log, _ = self.train(plan, name, *save, *options, threads=threads)
        state = os.path.join(self.path(name), "step-000001", "optimizer.safetensors")
        state = read_safetensors(state)
        return train_losses(log)[0] * ROWS, {
            p: [value / 0.5 for value in state[p + ".adam_m"]] for p in ("rows", "w")
        }

    def test_the_example_of_the_page(self):
        """What docs/kernels.md shows, and the same model without the kernel, to 1e-5 of the loss."""
        with open(os.path.join(ROOT, "docs/kernels.md"), encoding="utf-8") as file:
            text = re.search(r"```cpp\n(.*?)```", file.read(), re.S)[1]
        os.mkdir(self.path("page"))
        write_shard(self.path("t_0.bin"), tokens(3000, 1, 256, 0))
        losses = {}
        for name, model in (
            ("kernel", text),
            ("plain", text.replace("squaredRelu(linear(", "square(relu(linear(").replace("up)), down", "up))), down")),
        ):
            source = self.path(f"page/{name}.cpp")
            with open(source, "w", encoding="utf-8") as file:
                file.write(model)
            for target, steps, options in (("cpu", 4, ()), ("cuda", 1, ("--device", "emulator"))):
                if (name, target) == ("plain", "cuda"):
                    continue
                plan = self.compiled(source, target, "--world", "1,2")
                log, _ = self.train(plan, f"page-{name}-{target}", "--steps", steps, *options)
                losses[name, target] = train_losses(log)
                if (name, target) == ("kernel", "cpu"):
                    log, _ = self.train(plan, "page-two", "--steps", steps, "--gpus", 2)
                    losses["two ranks"] = train_losses(log)
        self.assert_near(losses["kernel", "cpu"], losses["plain", "cpu"], 1e-5, "step")
        self.assert_near(losses["kernel", "cuda"], losses["plain", "cpu"][:1], 1e-5, "step")
        self.assert_near(losses["two ranks"], losses["kernel", "cpu"], 1e-5, "step on two ranks")
        self.assertNotEqual(*losses["plain", "cpu"][:2])

    def test_gradients(self):
        """Against double precision, whose gradients are finite differences, to 2e-5, on the CPU with
        one thread and three, and on the emulator with every access checked."""
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])

        def loss(x, w):
            total = 0
            for row in (x[at : at + COLUMNS] for at in range(0, len(x), COLUMNS)):
                y = [w[3 + c] * row[1 + c] ** 2 for c in range(9)]
                total += sum(a * b for a, b in zip(y + row[:3], w)) + sum(row[1:10])
            return total

        plan = self.compiled(self.write("scaled", SCALED, SCALED_CODE), "cpu")
        cuda = self.compiled(self.path("scaled.cpp"), "cuda")
        _, start = self.train(plan, "start", "--steps", 0)
        start = {name: list(values) for name, values in read_safetensors(start).items()}
        wanted = {}
        for name in ("rows", "w"):
            wanted[name] = []
            for i in range(len(start[name])):
                sides = []
                for sign in (1, -1):
                    moved = {key: list(values) for key, values in start.items()}
                    moved[name][i] += sign * 1e-6
                    sides.append(loss(moved["rows"], moved["w"]))
                wanted[name].append((sides[0] - sides[1]) / 2e-6)
        exact = loss(start["rows"], start["w"])
        # The second result is rounded to bf16.
        sums = [sum(start["rows"][at + 1 : at + 10]) for at in range(0, ROWS * COLUMNS, COLUMNS)]
        exact += sum(rounded(s) - s for s in sums)
        for name, of, threads, options in (
            ("one", plan, 1, ()),
            ("three", plan, 3, ()),
            ("emulator", cuda, 1, ("--device", "emulator")),
        ):
            found, gradients = self.gradients(of, name, *options, threads=threads)
            self.assertLessEqual(abs(found - exact), 2e-5 * abs(exact) + 2e-2, name)
            for parameter, gradient in gradients.items():
                self.assertLessEqual(distance(gradient, wanted[parameter]), 2e-5, (name, parameter))
        one, three = (read_safetensors(self.path(n + ".safetensors")) for n in ("one", "three"))
        self.assertEqual(one, three)  # to the bit

    def test_the_text_through_nvrtc(self):
        """NVRTC takes the example's kernel, and its message names the text's own line."""
        nvrtc_of = nvrtc.library()
        if nvrtc_of is None:
            self.skipTest("no NVRTC on this machine")
        for name, body in (("good", "y[i] = 2 * x[i];"), ("bad", "y[i] = 2 * z[i];")):
            source = self.write(name, twice(body), "return sum(twice(x) * w, 1)")
            self.compiled(source, "cuda", "--dump-ir", self.path(name))
            path, = glob.glob(self.path(name) + "/kernels/twice_*.cu")
            if name == "good":
                self.assertGreater(nvrtc.compile_kernel(nvrtc_of, path).registers, 0)
            else:
                with self.assertRaisesRegex(AssertionError, r"twice\(4\): error: identifier \"z\" is undefined"):
                    nvrtc.compile_kernel(nvrtc_of, path)

    def checked(self, source, target, *options):
        """What nanoc says that checks the model's kernels: (status, stderr)."""
        words = ("--target", target, *options)
        done = run_command("nanoc", "compile", source, "-o", source + ".plan", *words)
        return done.returncode, without_excerpts(done.stderr)

    def test_checks(self):
        """--check-kernels: derivatives against finite differences, accesses on the emulator."""
        code = "return sum(twice(x) * w, 1)"
        good = self.write("good", SCALED, SCALED_CODE)
        for target in ("cpu", "cuda"):
            self.assertEqual(self.checked(good, target, "--check-kernels"), (0, ""))
        wrong = self.write("wrong", twice(derivative=DERIVATIVE.replace("2.0", "3.0")), code)
        for target in ("cpu", "cuda"):
            status, said = self.checked(wrong, target, "--check-kernels")
            self.assertEqual(status, 2)
            # <3v, g> for <2v, g>: one of 5 parts; the norm's share is random.
            self.assertRegex(
                said,
                r"^nanoc: .*wrong\.cpp:\d+: kernel 'twice', of f32 \[16, 12\]: its derivative is off by "
                r"0\.\d\d from finite differences on random inputs, 0\.03 is allowed\n$",
            )
            self.assertEqual(self.checked(wrong, target), (0, ""))
        self.assertEqual(
            self.checked(self.write("part", twice("if (i % 7 != 3) y[i] = 2 * x[i];"), code), "cuda", "--check-kernels")[0], 2
        )
        writes = self.write("writes_too", twice("const_cast<float &>(x[i]) = y[i] = 2 * x[i];"), code)
        status, said = self.checked(writes, "cuda", "--check-kernels")
        self.assertEqual(status, 2)
        self.assertRegex(said, r"writes_too\.cpp:\d+.*twice:4.*which this launch only reads\n$")
        self.assertEqual(said.count("\n"), 1)

    def test_replacements(self):
        """A kernel in place of `norm`, where it agrees with it; the same losses and parameters to
        1e-5."""
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])

        def source(name, replace, scale="1"):
            return self.write(name, NORM.replace("REPLACE", replace).replace("SCALE", scale), NORM_CODE)

        plain = self.compiled(source("plain", ""), "cpu")
        log, parameters = self.train(plain, "plain", "--steps", 1)
        about = r"^nanoc: .*\.cpp:\d+: remark: kernel 'fast_norm' in place of norm, of f32 \[16, 12\]: it differs by "
        for target, options in (("cpu", ()), ("cuda", ("--device", "emulator"))):
            fast = source("fast", 'replace("norm", fastNorm);')
            status, said = self.checked(fast, target, "--dump-ir", self.path("fast-" + target))
            self.assertEqual(status, 0, said)
            self.assertRegex(said, about + r"\d\.\de-0[6-9] on random inputs, 1\.0e-05 is allowed\n$")
            own, found = self.train(fast + ".plan", "fast" + target, "--steps", 1, *options)
            self.assert_near(train_losses(own), train_losses(log), 1e-5, target)
            self.assert_parameters_near(found, parameters, 1e-4)
            with open(self.path(f"fast-{target}/00-frontend.mlir"), encoding="utf-8") as file:
                text = file.read()
            self.assertIn('nano.custom "fast_norm"', text)
            self.assertNotIn("nano.rsqrt", text.split("derivative")[0])
        # One that is something else, one for other shapes, one for another target.
        status, said = self.checked(source("off", 'replace("norm", fastNorm);', "1.01f"), "cpu")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, about + r"1\.0e-02 on random inputs, 1\.0e-05 is allowed: nanoc's own is used\n$")
        own, _ = self.train(self.path("off.cpp.plan"), "off", "--steps", 1)
        self.assertEqual(train_losses(own), train_losses(log))
        # Another epsilon at the same shapes is another function.
        two = self.write(
            "two",
            NORM.replace("REPLACE", 'replace("norm", fastNorm);').replace("SCALE", "1"),
            NORM_CODE.replace("norm(x)", "(norm(x) + norm(x, 0.5))"),
        )
        status, said = self.checked(two, "cpu")
        self.assertEqual((status, said.count("is allowed\n"), said.count("nanoc's own is used\n")), (0, 1, 1), said)
        large = NORM.replace("REPLACE", 'replace("norm", fastNorm);').replace("SCALE", "1")
        large = self.write("large", large, "norm(full({2000, 12}, 1, f32)); return sum(x * w, 1)")
        status, said = self.checked(large, "cpu")
        self.assertRegex(said, r"remark: kernel 'fast_norm' in place of norm, of f32 \[2000, 12\], which have 24000 elements, is not checked, and replaces nothing; give it \.checkedAt of 16384 at most\n")
        for name, how in (
            ("shapes", ".when = [](const Tensors &in) { return in[0].size(0) > 16; }"),
            ("target", '.target = "cuda"'),
        ):
            status, said = self.checked(source(name, f'replace("norm", fastNorm, {{{how}}});'), "cpu")
            self.assertEqual(status, 0, said)
            self.assertRegex(said, r"^nanoc: .*\.cpp:\d+: remark: replace: kernel 'fast_norm' takes the place of norm nowhere\n$")
        self.refused(
            source("unknown", 'replace("nrom", fastNorm);'),
            "cpu",
            r"unknown\.cpp:\d+: replace: there is no function 'nrom' that a kernel can take the place of; the nearest are norm, .*",
        )

    def test_text_that_the_emulator_cannot_compile(self):
        """Inline PTX runs on GPUs alone: what cannot be checked here is left to the run, what can is not,
        and each is said in a line. (That a check is made on a GPU is for a machine with one.)"""
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU here")
        ptx = "float z; asm(\"mov.f32 %0, %1;\" : \"=f\"(z) : \"f\"(x[0])); "
        first, behind = NORM.split("  REPLACE")
        other = first.replace("fast_norm", "other_norm").replace("fastNorm", "otherNorm").replace("text", "other")
        both = first.replace("float squares = 0;", ptx + "float squares = 0 * z;") + other
        replace = '  replace("norm", fastNorm, {.when = [](const Tensors &in) { return in[0].size(0) == 16; }});\n'
        replace += '  replace("norm", otherNorm, {.when = [](const Tensors &in) { return in[0].size(0) == 8; }});'
        source = self.write(
            "ptx",
            (both + replace + behind).replace("SCALE", "1"),
            "return sum(norm(x) * w, 1) + sum(norm(full({8, 12}, 1, f32)))",
        )
        status, said = self.checked(source, "cuda")
        self.assertEqual(status, 0, said)
        line = r"nanoc: [^\n]*ptx\.cpp:\d+: remark: kernel "
        why = r"not checked: kernel source [^\n]*\.cu does not compile for the emulator: [^\n]*, and on a GPU: [^\n]*"
        left = "nanorun checks it when a run begins, and uses nanoc's own where it is off"
        for says in (
            rf"'fast_norm' in place of norm, of f32 \[16, 12\]: {why}; {left}",
            rf"'fast_norm', of f32 \[16, 12\]: {why}; {left}",
            r"'other_norm' in place of norm, of f32 \[8, 12\]: it differs by \d\.\de-0[6-9] on random inputs, 1\.0e-05 is allowed",
        ):
            self.assertRegex(said, rf"(?m)^{line}{says}$")
        self.assertEqual(said.count("\n"), 3, said)
        # Nor can a run on the emulator compile it, which has nanoc's own then.
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])
        words = ("--device", "emulator", "--train", self.path("t_0.bin"), "--steps", 1)
        done = run_command("nanorun", source + ".plan", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(
            done.stderr,
            r"^nanorun: [^\n]*ptx\.cpp:\d+: kernel 'fast_norm' in place of norm, of f32 \[16, 12\], and 1 more: not checked, "
            r"nanoc's own is used until a run can check it: kernel source [^\n]*\.cu does not compile for the emulator: [^\n]*\n$",
        )

    def refused(self, source, target, says):
        done = run_command("nanoc", "compile", source, "-o", source + ".plan", "--target", target)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(without_excerpts(done.stderr), r"^nanoc: [^\n]*" + says + r"\n$")

    def test_errors_of_the_compiler(self):
        code = "return sum(twice(x) * w, 1)"
        none = self.write("none", twice(derivative=""), code)
        for target in ("cpu", "cuda"):
            self.refused(
                none,
                target,
                r"none\.cpp:\d+: kernel 'twice' has no derivative, and the loss depends on "
                r"parameters through it; give it \.derivative, or what it reads to stopGradient",
            )
        cpu = self.write("cpu", twice(targets=".cpu = text,"), code)
        self.refused(cpu, "cuda", r"cpu\.cpp:\d+: kernel 'twice' has no function for CUDA: give it \.cuda, or compile with --target cpu")
        cuda = self.write("cuda", twice(targets=".cuda = text,"), code)
        self.refused(cuda, "cpu", r"cuda\.cpp:\d+: kernel 'twice' has no function for the CPU: give it \.cpu, or compile with --target cuda")
        typo = self.write("typo", twice("y[i] = 2 * z[i];"), code)
        self.refused(typo, "cpu", r"typo\.cpp:\d+: kernel 'twice': its C\+\+ does not compile: twice:4:\d+: error: .*z.*")

    def stopped(self, name, body, status, says):
        """A run on the emulator that ends with a line that matches."""
        plan = self.compiled(self.write(name, twice(body), "return sum(twice(x) * w, 1)"), "cuda")
        done = run_command("nanorun", plan, "--device", "emulator", "--train", self.path("t_0.bin"), "--steps", 1)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, says)
        self.assertRegex(done.stderr, name + r"\.cpp:\d+")

    def test_what_the_emulator_finds(self):
        write_shard(self.path("t_0.bin"), [*range(ROWS), 0, 0])
        for name, body, status, says in (
            ("source", "y[i] = 2 * z[i];", 2, r"does not compile for the emulator: twice:4:\d+: error: .*z"),
            ("writes", "const_cast<float &>(x[i]) = y[i] = 2 * x[i];", 1, r"writes 4 bytes at byte \d+ of buffer '.*' \(twice:4, called at twice_\w+\.cu:\d+\), which this launch only reads"),
            ("beyond", "y[i + 1] = y[i] = 2 * x[i];", 1, r"(out of bounds|race): writes 4 bytes at byte \d+ of buffer"),
            ("reads", "y[i] += 2 * x[i];", 1, r"uninitialised: reads 4 bytes at byte \d+ of buffer '.*' \(twice:4, called at twice_\w+\.cu:\d+\), which this launch only writes, and has not written yet"),
        ):
            with self.subTest(name):
                self.stopped(name, body, status, says)


if __name__ == "__main__":
    main()
