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
  Launch launch;
  launch.segments.push_back({{{1}, {2, 64, true, false}}, 8, 1});
  launch.segments.push_back({{{3}, {4, 0, true, true}}, 8, 1});
  EXPECT_EQ(textOf({launch}), "1r 2w 3r 4rw");
  EXPECT_EQ(operandsOf({launch})[1].offset, 64u);
}

TEST(OperandsOf, Products) {
  Matmul product;
  product.a.buffer = 1;
  product.b.buffer = 2;
  product.c.buffer = 3;
  product.d.buffer = 4;
  EXPECT_EQ(textOf({product}), "1r 2r 3w"); // not D
  product.beta = 1;
  EXPECT_EQ(textOf({product}), "1r 2r 4r 3w");
  product.scales = {{5}, {6}};
  EXPECT_EQ(textOf({product}), "1r 2r 5r 6r 4r 3w");
}

TEST(OperandsOf, Transfers) {
  AllReduce reduce;
  reduce.parts = {{{1}, 8}, {{2}, 8}};
  EXPECT_EQ(textOf({reduce}), "1rw 2rw");
  const std::vector<Move> moves = {{{1}, {2}, 8}, {{3}, {4}, 8}};
  EXPECT_EQ(textOf({ReduceScatter{{Ranks::All, DType::F32, moves}}}), "1r 2w 3r 4w");
  EXPECT_EQ(textOf({AllGather{{Ranks::All, DType::F32, moves}}}), "1r 2w 3r 4w");
  EXPECT_EQ(textOf({Shard{{Ranks::All, DType::F32, moves}}}), "1r 2w 3r 4w");
  EXPECT_EQ(textOf({Copy{DType::F32, {1}, {2}, 8}}), "1r 2w");
  EXPECT_EQ(textOf({Fill{DType::F32, {1}, 8}}), "1w");
}

TEST(OperandsOf, Events) {
  EXPECT_EQ(textOf({RecordEvent{1}}), "");
  EXPECT_EQ(textOf({WaitEvent{1}}), "");
}

TEST(ExchangeOf, WhatRanksMove) {
  AllReduce reduce;
  reduce.ranks = Ranks::Peers;
  reduce.type = DType::BF16;
  reduce.parts = {{{1}, 8}};
  EXPECT_EQ(exchangeOf({reduce}), (Exchange{Ranks::Peers, DType::BF16, {{{1}, {1}, 8}}}));
  const Exchange exchange = {Ranks::Group, DType::F32, {{{1}, {2}, 8}}};
  EXPECT_EQ(exchangeOf({AllGather{exchange}}), exchange);
  EXPECT_EQ(exchangeOf({Shard{exchange}}), exchange);
  EXPECT_EQ(exchangeOf({Fill{}}), std::nullopt);
}

} // namespace
} // namespace nano::plan
