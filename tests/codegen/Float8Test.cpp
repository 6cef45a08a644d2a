// Conversions between f8 and wider floats, exhaustively, against a table made from the formats'
// definitions: in generated kernels, in the interpreter, and in the runtime's helpers.
#include "tests/codegen/TaskRunner.h"

#include "passes/cpu/RowKernel.h"
#include "runtime/NumberFormats.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace nano;
using namespace nano::test;

namespace {

/// An f8 type by its definition: sign, exponent of this bias, mantissa of this many bits.
struct Format {
  const char *name;
  int mantissa, bias;
  int largest;      ///< code of the largest finite number
  bool hasInfinity; ///< the code behind it
  mlir::Type (*type)(mlir::MLIRContext *);
  float (*fromBits)(uint8_t);

  /// The number that a code stands for.
  double decode(int code) const {
    int magnitude = code & 0x7f, exponent = magnitude >> mantissa;
    double fraction = magnitude & ((1 << mantissa) - 1), whole = 1 << mantissa, value = 0;
    if (magnitude > largest)
      value = hasInfinity && magnitude == largest + 1 ? std::numeric_limits<double>::infinity()
                                                      : std::numeric_limits<double>::quiet_NaN();
    else if (exponent == 0)
      value = std::ldexp(fraction / whole, 1 - bias);
    else
      value = std::ldexp(1 + fraction / whole, exponent - bias);
    return code & 0x80 ? -value : value;
  }

  /// The code that stands for the number nearest to x; of two at one distance the even code.
  int encode(double x) const {
    int sign = std::signbit(x) ? 0x80 : 0;
    x = std::abs(x);
    if (x >= decode(largest))
      return sign | largest;
    int low = 0, high = largest; // decode(low) ≤ x < decode(high)
    while (high - low > 1) {
      int middle = (low + high) / 2;
      (decode(middle) <= x ? low : high) = middle;
    }
    double below = x - decode(low), above = decode(high) - x;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
  }
};

template <typename Type> mlir::Type typeOf(mlir::MLIRContext *context) {
  return Type::get(context);
}

const Format formats[] = {
    {"f8E4M3FN", 3, 7, 0x7e, false, typeOf<mlir::Float8E4M3FNType>, fromE4m3},
    {"f8E5M2", 2, 15, 0x7b, true, typeOf<mlir::Float8E5M2Type>, fromE5m2},
};

std::ostream &operator<<(std::ostream &os, const Format &format) { return os << format.name; }

class Float8 : public testing::TestWithParam<Format> {};

/// A kernel of `body` from x of type `from` to %r of type `to`, both of `count` elements.
std::unique_ptr<TaskRunner> kernelOf(const std::string &from, const std::string &to, size_t count,
                                     const std::string &body, int64_t lanes) {
  std::string text =
      llvm::formatv("step.program @p {{\n%x = step.buffer \"x\" : memref<{0}x{1}>\n"
                    "%y = step.buffer \"y\" : memref<{0}x{2}>\n"
                    "step.task ins(%x) outs(%y) : (memref<{0}x{1}>) -> memref<{0}x{2}> {{\n"
                    "^bb0(%a: tensor<{0}x{1}>):\n{3}\nnano.yield %r : tensor<{0}x{2}>\n}\n}\n",
                    count, from, to, body);
  return TaskRunner::make(text, emitRow, lanes);
}

std::string castText(const std::string &from, const std::string &to, size_t count) {
  return llvm::formatv("%r = nano.cast %a : tensor<{0}x{1}> -> tensor<{0}x{2}>", count, from, to);
}

/// Compares bytes with the codes of `values`; NaN may have any of its codes.
void expectCodes(const Format &format, const std::vector<std::byte> &bytes,
                 const std::vector<double> &values) {
  ASSERT_EQ(bytes.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    int code = std::to_integer<int>(bytes[i]);
    if (std::isnan(values[i]))
      ASSERT_TRUE(std::isnan(format.decode(code))) << "NaN became " << format.decode(code);
    else
      ASSERT_EQ(code, format.encode(values[i]))
          << values[i] << " became " << format.decode(code) << ", not "
          << format.decode(format.encode(values[i]));
  }
}

/// Every bf16; subnormal ones too, which round to zero either way.
std::vector<double> allBf16() {
  std::vector<double> values;
  for (int bits = 0; bits < 0x10000; ++bits)
    values.push_back(fromBf16(static_cast<uint16_t>(bits)));
  return values;
}

/// Every tie of neighbouring numbers, what lies next to it in f32, what stands at the ends of the
/// range, specials, and random bits.
std::vector<double> hardFloats(const Format &format) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0,
                               infinity,
                               std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min()};
  auto around = [&](double x) {
    auto f = static_cast<float>(x);
    EXPECT_EQ(f, x) << "a tie is a number of f32";
    values.insert(values.end(), {f, std::nextafter(f, infinity), std::nextafter(f, 0.0F)});
  };
  for (int code = 0; code < format.largest; ++code) {
    around(format.decode(code));
    around((format.decode(code) + format.decode(code + 1)) / 2);
  }
  double top = format.decode(format.largest), last = format.decode(format.largest - 1);
  for (double x : {top, top + (top - last) / 2, top + (top - last), 2 * top})
    around(x);
  std::mt19937 random(9);
  while (values.size() < 40000)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::vector<double> result;
  for (float value : values)
    for (float sign : {1.0F, -1.0F})
      result.push_back(std::copysign(value, sign * (std::signbit(value) ? -1.0F : 1.0F)));
  return result;
}

TEST_P(Float8, KernelsWidenEveryCode) {
  const Format &format = GetParam();
  for (int64_t lanes : TaskRunner::lanes())
    for (const char *to : {"f32", "bf16"}) {
      auto runner = kernelOf(format.name, to, 256, castText(format.name, to, 256), lanes);
      ASSERT_TRUE(runner);
      for (int code = 0; code < 256; ++code)
        runner->inputMemory(0)[code] = static_cast<std::byte>(code);
      runner->run();
      std::vector<double> values = runner->output(0).data;
      for (int code = 0; code < 256; ++code) {
        double expected = format.decode(code);
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(values[code])) << code;
        else
          EXPECT_EQ(std::bit_cast<uint64_t>(values[code]), std::bit_cast<uint64_t>(expected))
              << code << " to " << to;
      }
    }
}

TEST_P(Float8, KernelsNarrowEveryBf16) {
  const Format &format = GetParam();
  std::vector<double> values = allBf16();
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = kernelOf("bf16", format.name, values.size(),
                           castText("bf16", format.name, values.size()), lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, TensorValue{{static_cast<int64_t>(values.size())}, values});
    runner->run();
    expectCodes(format, runner->outputBytes(), values);
  }
}

TEST_P(Float8, KernelsNarrowHardFloats) {
  const Format &format = GetParam();
  std::vector<double> values = hardFloats(format);
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = kernelOf("f32", format.name, values.size(),
                           castText("f32", format.name, values.size()), lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, TensorValue{{static_cast<int64_t>(values.size())}, values});
    runner->run();
    expectCodes(format, runner->outputBytes(), values);
  }
}

/// q = f8(x·(1/s)), each step rounded as the op says, with a scale from memory and with a constant.
TEST_P(Float8, KernelsQuantizeAsTheOpSays) {
  const Format &format = GetParam();
  std::vector<double> values = allBf16();
  for (bool isConstant : {false, true})
    for (float scale : {0.0131F, 1.0F / 448, 3.0e4F, 1.0F}) {
      std::string constant =
          llvm::formatv("nano.constant {0:e20} : tensor<f32>", static_cast<double>(scale));
      std::string text = llvm::formatv(
          "step.program @p {{\n%x = step.buffer \"x\" : memref<{0}xbf16>\n"
          "%s = step.buffer \"s\" : memref<f32>\n%y = step.buffer \"y\" : memref<{0}x{1}>\n"
          "step.task ins(%x, %s) outs(%y) : (memref<{0}xbf16>, memref<f32>) -> memref<{0}x{1}> {{\n"
          "^bb0(%a: tensor<{0}xbf16>, %given: tensor<f32>):\n"
          "%one = nano.constant 1.0 : tensor<f32>\n%fixed = {2}\n"
          "%i = nano.div %one, {3} : tensor<f32>\n"
          "%b = nano.broadcast %i dims [] : tensor<f32> -> tensor<{0}xf32>\n"
          "%f = nano.cast %a : tensor<{0}xbf16> -> tensor<{0}xf32>\n"
          "%p = nano.mul %f, %b : tensor<{0}xf32>\n"
          "%r = nano.cast %p : tensor<{0}xf32> -> tensor<{0}x{1}>\n"
          "nano.yield %r : tensor<{0}x{1}>\n}\n}\n",
          values.size(), format.name, constant, isConstant ? "%fixed" : "%given");
      std::vector<double> products;
      for (double value : values)
        products.push_back(static_cast<float>(value) * (1.0F / scale));
      for (int64_t lanes : TaskRunner::lanes()) {
        auto runner = TaskRunner::make(text, emitRow, lanes);
        ASSERT_TRUE(runner);
        runner->setInput(0, TensorValue{{static_cast<int64_t>(values.size())}, values});
        runner->setInput(1, TensorValue{{}, {scale}});
        runner->run();
        expectCodes(format, runner->outputBytes(), products);
      }
    }
}

/// A value that is stored as f8 is, for the ops that read it in the same kernel, what memory holds.
TEST_P(Float8, KernelsComputeWithTheRoundedValue) {
  const Format &format = GetParam();
  std::vector<double> values = hardFloats(format);
  std::string body = llvm::formatv("%q = nano.cast %a : tensor<{0}xf32> -> tensor<{0}x{1}>\n"
                                   "%r = nano.cast %q : tensor<{0}x{1}> -> tensor<{0}xf32>",
                                   values.size(), format.name);
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = kernelOf("f32", "f32", values.size(), body, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, TensorValue{{static_cast<int64_t>(values.size())}, values});
    runner->run();
    std::vector<double> results = runner->output(0).data;
    for (size_t i = 0; i < values.size(); ++i)
      if (std::isnan(values[i]))
        ASSERT_TRUE(std::isnan(results[i]));
      else
        ASSERT_EQ(results[i], format.decode(format.encode(values[i]))) << values[i];
  }
}

/// Rows that are no multiple of a vector, parts of larger tensors, and transposed ones, in and out.
TEST_P(Float8, KernelsTakeEveryLayout) {
  const Format &format = GetParam();
  const char *layouts[] = {"", ", strided<[64, 1], offset: 3>", ", strided<[1, 5]>",
                           ", strided<[3, 192]>"};
  std::mt19937_64 random(3);
  TensorValue value{{5, 37}, {}};
  std::normal_distribution<double> normal(0, 4);
  for (int i = 0; i < 5 * 37; ++i)
    value.data.push_back(normal(random));
  for (const char *in : layouts)
    for (const char *out : layouts)
      for (int64_t lanes : TaskRunner::lanes()) {
        auto declare = [](const char *name, const char *type, const char *layout) -> std::string {
          return *layout
                     ? llvm::formatv("%{0}0 = step.buffer \"{0}\" : memref<8192x{1}>\n%{0} = "
                                     "step.view %{0}0 : memref<8192x{1}> to memref<5x37x{1}{2}>\n",
                                     name, type, layout)
                           .str()
                     : llvm::formatv("%{0} = step.buffer \"{0}\" : memref<5x37x{1}>\n", name, type)
                           .str();
        };
        std::string text = llvm::formatv(
            "step.program @p {{\n{0}{1}step.task ins(%x) outs(%y) : (memref<5x37x{4}{2}>) -> "
            "memref<5x37x{4}{3}> {{\n^bb0(%a: tensor<5x37x{4}>):\n"
            "%f = nano.cast %a : tensor<5x37x{4}> -> tensor<5x37xf32>\n"
            "%n = nano.neg %f : tensor<5x37xf32>\n"
            "%r = nano.cast %n : tensor<5x37xf32> -> tensor<5x37x{4}>\n"
            "nano.yield %r : tensor<5x37x{4}>\n}\n}\n",
            declare("x", format.name, in), declare("y", format.name, out), in, out, format.name);
        auto runner = TaskRunner::make(text, emitRow, lanes);
        ASSERT_TRUE(runner);
        runner->setInput(0, value);
        runner->run();
        std::vector<double> expected;
        for (double x : value.data)
          expected.push_back(-format.decode(format.encode(x)));
        ASSERT_EQ(runner->output(0).data, expected) << "from" << in << " to" << out;
      }
}

/// One kernel writes a tensor with its rows as rows and as columns.
TEST_P(Float8, KernelsWriteBothLayouts) {
  const Format &format = GetParam();
  std::string text = llvm::formatv(
      "step.program @p {{\n%x = step.buffer \"x\" : memref<9x37xf32>\n"
      "%q = step.buffer \"q\" : memref<9x37x{0}>\n%t = step.buffer \"t\" : memref<37x9x{0}>\n"
      "%v = step.view %t : memref<37x9x{0}> to memref<9x37x{0}, strided<[1, 9]>>\n"
      "step.task ins(%x) outs(%q, %v) : (memref<9x37xf32>) -> (memref<9x37x{0}>, "
      "memref<9x37x{0}, strided<[1, 9]>>) {{\n^bb0(%a: tensor<9x37xf32>):\n"
      "%r = nano.cast %a : tensor<9x37xf32> -> tensor<9x37x{0}>\n"
      "nano.yield %r, %r : tensor<9x37x{0}>, tensor<9x37x{0}>\n}\n}\n",
      format.name);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 4);
  TensorValue value{{9, 37}, {}};
  std::vector<double> expected;
  for (int i = 0; i < 9 * 37; ++i) {
    value.data.push_back(static_cast<float>(normal(random)));
    expected.push_back(format.decode(format.encode(value.data.back())));
  }
  for (int64_t lanes : TaskRunner::lanes()) {
    auto runner = TaskRunner::make(text, emitRow, lanes);
    ASSERT_TRUE(runner);
    runner->setInput(0, value);
    runner->run();
    EXPECT_EQ(runner->output(0).data, expected);
    EXPECT_EQ(runner->output(1).data, expected);
  }
}

TEST_P(Float8, InterpreterRounds) {
  const Format &format = GetParam();
  mlir::MLIRContext context;
  mlir::Type type = format.type(&context);
  for (const std::vector<double> &values : {allBf16(), hardFloats(format)})
    for (double value : values) {
      double rounded = roundTo(value, type);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(rounded));
      else
        ASSERT_EQ(std::bit_cast<uint64_t>(rounded),
                  std::bit_cast<uint64_t>(format.decode(format.encode(value))))
            << value;
    }
}

TEST_P(Float8, RuntimeReadsEveryCode) {
  const Format &format = GetParam();
  for (int code = 0; code < 256; ++code) {
    double value = format.fromBits(static_cast<uint8_t>(code)), expected = format.decode(code);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(value)) << code;
    else
      EXPECT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(expected)) << code;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8, testing::ValuesIn(formats),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
