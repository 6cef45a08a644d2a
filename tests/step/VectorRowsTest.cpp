// Which memrefs have rows or columns that are read and written by 16 bytes.
#include "ir/step/VectorRows.h"

#include "mlir/IR/BuiltinTypes.h"

#include <gtest/gtest.h>

using namespace mlir;
using nano::step::hasVectorColumns;
using nano::step::hasVectorRows;

namespace {

class VectorRowsTest : public ::testing::Test {
protected:
  /// Of f32.
  MemRefType memref(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides, int64_t offset = 0) {
    return MemRefType::get(shape, Float32Type::get(&context),
                           StridedLayoutAttr::get(&context, offset, strides));
  }
  MLIRContext context;
};

TEST_F(VectorRowsTest, vectorRows) {
  EXPECT_TRUE(hasVectorRows(MemRefType::get({3, 8}, Float32Type::get(&context))));
  EXPECT_FALSE(hasVectorRows(MemRefType::get({3, 6}, Float32Type::get(&context))));
  EXPECT_TRUE(hasVectorRows(memref({3, 6}, {8, 1}, 4)));
  EXPECT_FALSE(hasVectorRows(memref({3, 6}, {8, 1}, 2)));
  EXPECT_FALSE(hasVectorRows(memref({3, 8}, {8, 2})));
  EXPECT_TRUE(hasVectorRows(memref({3, 1}, {8, 2}))); // a row of one element
  // Every dimension but the last counts, unless there is one step of it.
  EXPECT_FALSE(hasVectorRows(memref({2, 3, 8}, {24, 6, 1})));
  EXPECT_TRUE(hasVectorRows(memref({2, 1, 8}, {24, 6, 1})));
  EXPECT_TRUE(hasVectorRows(memref({1, 3, 8}, {5, 8, 1})));
}

/// One number is read by itself, wherever it lies.
TEST_F(VectorRowsTest, oneNumber) {
  EXPECT_TRUE(hasVectorRows(memref({}, {}, 3)));
  EXPECT_TRUE(hasVectorRows(memref({1}, {1}, 3)));
  EXPECT_FALSE(hasVectorRows(memref({2}, {1}, 3)));
}

TEST_F(VectorRowsTest, vectorColumns) {
  EXPECT_TRUE(hasVectorColumns(memref({6, 3}, {1, 8}, 4)));
  EXPECT_FALSE(hasVectorColumns(memref({6, 3}, {1, 8}, 2)));
  EXPECT_FALSE(hasVectorColumns(memref({6, 3}, {1, 6})));
  EXPECT_FALSE(hasVectorColumns(memref({6, 8}, {8, 1})));
  EXPECT_FALSE(hasVectorColumns(memref({2, 6, 3}, {24, 1, 8})));
}

} // namespace
