// What commands read and write.
#include "runtime/plan/Operands.h"

#include <gtest/gtest.h>
#include <string>

namespace nano::plan {
namespace {

/// "1r 2w 3rw": buffers with what happens to them.
std::string textOf(const Command &command) {
  std::string text;
  for (const Ref &ref : operandsOf(command)) {
    text += text.empty() ? "" : " ";
    text += std::to_string(ref.buffer) + (ref.read ? "r" : "") + (ref.written ? "w" : "");
  }
  return text;
}

TEST(OperandsOf, Launches) {
  Command launch;
  launch.segments.push_back({{{1}, {2, 64, true, false}}, 8, 1});
  launch.segments.push_back({{{3}, {4, 0, true, true}}, 8, 1});
  EXPECT_EQ(textOf(launch), "1r 2w 3r 4rw");
  EXPECT_EQ(operandsOf(launch)[1].offset, 64u);
}

TEST(OperandsOf, Products) {
  Command product;
  product.kind = Command::Kind::Matmul;
  product.a.buffer = 1;
  product.b.buffer = 2;
  product.c.buffer = 3;
  product.d.buffer = 4;
  product.scaleA.buffer = 5;
  product.scaleB.buffer = 6;
  EXPECT_EQ(textOf(product), "1r 2r 3w"); // neither D nor scales
  product.beta = 1;
  EXPECT_EQ(textOf(product), "1r 2r 4r 3w");
  product.scaled = true;
  EXPECT_EQ(textOf(product), "1r 2r 5r 6r 4r 3w");
}

TEST(OperandsOf, Transfers) {
  Command command;
  command.refs = {{1}, {2}, {3}, {4}};
  command.kind = Command::Kind::AllReduce;
  EXPECT_EQ(textOf(command), "1rw 2rw 3rw 4rw");
  for (auto kind : {Command::Kind::ReduceScatter, Command::Kind::AllGather, Command::Kind::Shard}) {
    command.kind = kind;
    EXPECT_EQ(textOf(command), "1r 2w 3r 4w");
  }
  command.refs.resize(2);
  command.kind = Command::Kind::Copy;
  EXPECT_EQ(textOf(command), "1r 2w");
  command.refs.resize(1);
  command.kind = Command::Kind::Fill;
  EXPECT_EQ(textOf(command), "1w");
}

TEST(OperandsOf, Events) {
  Command command;
  for (auto kind : {Command::Kind::RecordEvent, Command::Kind::WaitEvent}) {
    command.kind = kind;
    EXPECT_EQ(textOf(command), "");
  }
}

} // namespace
} // namespace nano::plan
